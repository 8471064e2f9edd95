// The board in a browser. It shows a state (Game.state, of board.py or engine.js) and sends commands: a move, "undo",
// "hint", "level 2". What is chosen for the next move, rank, stage and micro-batch, is known here only.

const KINDS = { F: "forward", B: "backward", I: "backward, inputs", W: "backward, weights" };
const keysFor = (kinds, stages) =>
  `Arrow up and down: rank. ${stages > 1 ? "Arrow left and right: stage. " : ""}${kinds.join(", ")}: its next action of ` +
  "that kind. A digit before: which micro-batch. U or Backspace: undo. H: hint.";

// JupyterLab's shortcuts (B: a new cell, arrow down: the next one) are not for keys on what says this, or are caught
// on their way up, by its version.
const OWN_KEYS = { "data-lm-suppress-shortcuts": "true" };

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") element.onclick = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const button = (name, pressed, onclick, ...children) =>
  make("button", { type: "button", name, ...OWN_KEYS, ...(pressed === null ? {} : { "aria-pressed": pressed }), onclick }, ...children);

export function gameView(root, send) {
  let state, rank, stage, number; // the stage is null for any, the micro-batch for the next
  const title = make("select", { "aria-label": "Level", ...OWN_KEYS });
  const parts = { task: make("p"), goal: make("p"), choices: make("div", { class: "sg-row" }), keys: make("p") };
  const board = make("div", { class: "sg-board", tabindex: 0, role: "application", ...OWN_KEYS });
  const offers = make("div", { class: "sg-row", role: "group", "aria-label": "Actions of this rank" });
  const line = make("p", { role: "status", "aria-live": "polite", class: "sg-line" });
  const said = make("p", { role: "alert", "aria-live": "assertive", class: "sg-said" });
  const again = button("again", null, () => send(`level ${state.level}`), "Start over");
  const undo = button("undo", null, () => send("undo"), "Undo (U)");
  const hint = button("hint", null, () => send("hint"), "Hint (H)");
  parts.keys.className = "sg-keys";
  title.onchange = () => send(`level ${title.value}`);
  root.classList.add("schedule-game");
  const head = make("div", { class: "sg-row" }, title, undo, hint, again);
  root.replaceChildren(head, parts.task, parts.goal, board, parts.choices, offers, said, line, parts.keys);

  const stages = () => state.ranks[rank].stages;
  const placeNext = (kind) => place(`${kind}${stage === null ? "" : `${stage}.`}${number ?? ""}`);

  // The choice of a micro-batch ends with the move, not with its answer: who types fast has chosen the next one by then.
  function place(action) {
    number = null;
    send(`${rank} ${action}`);
  }

  function chooseRank(which) {
    if (which < 0 || which >= state.ranks.length) return;
    if (document.activeElement?.name === `rank ${rank}`) focusOn(`rank ${which}`);
    [rank, stage, number] = [which, null, null];
    const { cells, offers } = state.ranks[rank];
    const has = cells.map(([name, start, end]) => `${name} from ${start} to ${end}`).join(", ") || "nothing yet";
    const legal = offers.filter(([, legal]) => legal).map(([name]) => name).join(", ") || "nothing";
    draw(`rank ${rank} has ${has}. Legal next: ${legal}.`);
  }

  function choose(what) {
    ({ stage = stage, number = number } = what);
    draw(`Next: ${stage === null ? "any stage" : `stage ${stage}`}, ${number === null ? "the next micro-batch" : `micro-batch ${number}`}.`);
  }

  function chooseStage(step) {
    const all = [null, ...stages()];
    if (all.length > 2) choose({ stage: all[(all.indexOf(stage) + step + all.length) % all.length] });
  }

  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    event.stopPropagation();
    if (event.target === title) return;
    const pressed = event.key.length === 1 ? event.key.toUpperCase() : event.key;
    const steps = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -1, ArrowRight: 1 };
    if (pressed === "ArrowUp" || pressed === "ArrowDown") chooseRank(rank + steps[pressed]);
    else if (pressed in steps) chooseStage(steps[pressed]);
    else if (pressed in KINDS) placeNext(pressed);
    else if (/^[0-9]$/.test(pressed)) choose({ number: Number(pressed) === number ? null : Number(pressed) });
    else if (pressed === "U" || pressed === "Backspace") send("undo");
    else if (pressed === "H") send("hint");
    else return;
    event.preventDefault();
  }
  root.addEventListener("keydown", key);
  // Keys are for the game once it has been clicked anywhere; the line of the keys says whether they are (view.css).
  root.addEventListener("click", () => root.contains(document.activeElement) || board.focus({ preventScroll: true }));

  const focusOn = (name) => (root.querySelector(`[name="${name}"]`) || board).focus({ preventScroll: true });

  const spans = (start, end) => `grid-column: ${start + 1} / ${end + 1}`;

  function cell([name, start, end]) {
    const label = `${name}, ${start} to ${end}`;
    const attributes = { class: `sg-cell sg-${name[0]}`, style: spans(start, end), title: label, "aria-label": label };
    return make("li", attributes, make("b", {}, name[0]), name.slice(1));
  }

  function lane({ cells }, which) {
    const name = button(`rank ${which}`, which === rank, () => chooseRank(which), `rank ${which}`);
    const par = make("i", { class: "sg-par", style: spans(state.par, state.par + 1), "aria-hidden": "true" });
    const list = make("ol", { class: "sg-lane", "aria-label": `rank ${which}` }, ...cells.map(cell), par);
    return make("div", { class: "sg-rank", onclick: () => which !== rank && chooseRank(which) }, name, list);
  }

  function clock() {
    const ticks = [...Array(state.columns).keys()].map((time) =>
      make("span", { style: spans(time, time + 1) }, time === state.par ? `${time} par` : `${time}`));
    return make("div", { class: "sg-rank sg-clock", "aria-hidden": "true" }, make("span", {}, "time"),
      make("div", { class: "sg-lane" }, ...ticks));
  }

  function choices() {
    const chip = (what, value, chosen, words) =>
      button(`${what} ${words}`, value === chosen, () => choose({ [what]: value }), words);
    const group = (label, what, values, chosen, none) =>
      make("span", { role: "group", "aria-label": label, class: "sg-row" }, `${label}:`,
        ...[null, ...values].map((value) => chip(what, value, chosen, value === null ? none : `${value}`)));
    const numbers = [...Array(state.micro_batches).keys()];
    const all = [group("micro-batch", "number", numbers, number, "next")];
    return stages().length > 1 ? [group("stage", "stage", stages(), stage, "any"), ...all] : all;
  }

  function offer([name, legal]) {
    const [kind, own] = [name[0], name.slice(1).split(".")[0]];
    const shown = number === null ? name : `${kind}${own}.${number}`;
    const label = `${shown}, ${KINDS[kind]}${legal || number !== null ? "" : ", not legal now"}`;
    const made = button(`offer ${kind}${own}`, null, () => place(shown), shown);
    made.className = `sg-${kind}${legal || number !== null ? "" : " sg-not-now"}`;
    made.setAttribute("aria-label", label);
    return made;
  }

  function draw(words = state.said, tone = "") {
    const focused = root.contains(document.activeElement) && document.activeElement.name;
    title.replaceChildren(...state.titles.map((text, place) => make("option", { value: place + 1 }, `${place + 1}. ${text}`)));
    title.value = state.level;
    board.style.setProperty("--columns", state.columns);
    board.setAttribute("aria-label", `Board of ranks and time, rank ${rank} is chosen`);
    board.replaceChildren(clock(), ...state.ranks.map(lane));
    parts.task.textContent = state.task;
    parts.goal.textContent = state.goal;
    parts.choices.replaceChildren(...choices());
    const kinds = new Set(state.ranks[rank].offers.map(([name]) => name[0]));
    parts.keys.replaceChildren(
      make("b", { class: "sg-listening" }, "Keys are on. "), make("b", { class: "sg-deaf" }, "Click here to use keys. "),
      keysFor([...kinds], stages().length));
    offers.replaceChildren(...state.ranks[rank].offers.map(offer));
    line.textContent = state.line;
    said.textContent = words;
    said.className = `sg-said sg-${tone || "plain"}`;
    if (focused) focusOn(focused);
  }

  function follow() {
    const ends = [...board.querySelectorAll(".sg-cell")].map((each) => each.offsetLeft + each.offsetWidth);
    const last = Math.max(0, ...ends);
    if (last > board.scrollLeft + board.clientWidth - 30) board.scrollLeft = last - board.clientWidth / 2;
    if (!ends.length) board.scrollLeft = 0;
  }

  return function show(next) {
    if (!state || state.level !== next.level) [rank, stage, number] = [0, null, null];
    state = next;
    draw(state.said, state.tone);
    follow();
  };
}

export default {
  render({ model, el }) {
    const show = gameView(el, (command) => model.send(command));
    const changed = () => show(model.get("state"));
    model.on("change:state", changed);
    changed();
    return () => model.off("change:state", changed);
  },
};
