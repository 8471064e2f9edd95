// The game without Python, for a static page: board.py, and what it needs of utils/schedules, in the same order and with
// the same words. tests/browser/test_game.py plays thousands of moves on both and compares all that there is to see.

const MOVE = /^([0-9]+) ([FBIW])(?:([0-9]+)\.)?([0-9]+)?$/;
const HOW = "write 0 F for the next forward pass of rank 0, 0 F2 for that of micro-batch 2, 0 F1.2 for that of stage 1";
const SECONDS = { F: 1, B: 2, I: 1, W: 1 };
const HELD = { F: 1, B: -1, I: 0, W: -1 };
const PARTS_OF = { B: "IW", I: "B", W: "B" };

const range = (count) => [...Array(count).keys()];
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const percent = (part, whole) => `${whole ? Math.floor((100 * part) / whole + 0.5) : 0}%`;
const short = ({ kind, stage, number }) => `${kind}${stage}.${number}`;

function ordinal(number) {
  const ending = [11, 12, 13].includes(number % 100) ? "th" : { 1: "st", 2: "nd", 3: "rd" }[number % 10] || "th";
  return ["", "first", "second", "third"][number] || `${number}${ending}`;
}

// What an action needs: a list of needs, each a list of which any will do.
function needs({ kind, stage, number }, stages) {
  const of = (kind, stage) => ({ kind, stage, number });
  if (kind === "F") return stage ? [[of("F", stage - 1)]] : [];
  if (kind === "W") return [[of("I", stage)]];
  const own = [[of("F", stage)]];
  return stage === stages - 1 ? own : [...own, [of("B", stage + 1), of("I", stage + 1)]];
}

function wants(action, need) {
  const names = need.map(short).join(" or ");
  if (action.kind === "W") return `it needs the result of ${names}`;
  if (action.kind === "F") return `its input comes from ${names}`;
  return need[0].kind === "F" ? `it needs its forward pass, ${names}` : `its gradient comes from ${names}`;
}

export class Game {
  constructor(levels, level = 1) {
    this.levels = levels;
    this.start(level);
  }

  // --- moves ---

  start(number) {
    this.number = number;
    this.level = this.levels[number - 1];
    this.placement = this.level.placement;
    this.ranks = range(1 + Math.max(...this.placement));
    this.moves = [];
    this.hints = 0;
    this.answer("");
  }

  do(command) {
    if (command === "undo") this.undo();
    else if (command === "hint") this.hint();
    else if (command.startsWith("level ")) this.start(Number(command.slice(6)));
    else this.move(command);
  }

  move(text) {
    const found = MOVE.exec(text);
    if (!found) return this.answer(`'${text}' is not a move: ${HOW}`, "refused");
    const rank = Number(found[1]);
    if (rank >= this.ranks.length) {
      return this.answer(`there is no rank ${rank}; the last is ${this.ranks.length - 1}`, "refused");
    }
    const action = this.meant(rank, found[2], found[3], found[4]);
    const reason = this.refusal(rank, action);
    if (reason) return this.answer(reason, "refused");
    this.moves.push({ rank, action });
    const [start, end] = this.played().times.get(short(action));
    const told = `${short(action)} on rank ${rank}, from ${start} to ${end}.`;
    if (this.complete()) this.answer(`${told} ${this.verdict()}`, "done");
    else this.answer(told);
  }

  undo() {
    if (!this.moves.length) return this.answer("There is nothing to undo.", "refused");
    this.moves.pop();
    this.answer("The last move is undone.");
  }

  hint() {
    const hints = this.level.hints;
    this.hints = Math.min(this.hints + 1, hints.length);
    this.answer(`Hint ${this.hints} of ${hints.length}: ${hints[this.hints - 1]}`, "hint");
  }

  answer(said, tone = "") {
    Object.assign(this, { said, tone });
  }

  meant(rank, kind, stage, number) {
    const stages = stage === undefined ? this.stagesOf(rank) : [Number(stage)];
    const numbers = number === undefined ? range(this.level.micro_batches) : [Number(number)];
    const actions = numbers.flatMap((number) => stages.map((stage) => ({ kind, stage, number })));
    const there = this.row(rank).map(short);
    const legal = actions.find((action) => !this.refusal(rank, action));
    return legal || actions.find((action) => !there.includes(short(action))) || actions[0];
  }

  // --- rules: the sentences of utils/schedules/rules.py ---

  refusal(rank, action) {
    if (!this.level.kinds.includes(action.kind)) {
      return `rank ${rank} cannot do ${short(action)}: in this level, the backward pass is in one piece, B`;
    }
    const done = new Set(this.moves.map((move) => short(move.action)));
    const row = this.row(rank);
    const reason = this.wrong(rank, action, done) || this.missing(rank, action, done) || this.tooMuch(rank, row, action);
    return reason && `rank ${rank} cannot do ${short(action)} as its ${ordinal(row.length + 1)} action: ${reason}`;
  }

  wrong(rank, { kind, stage, number }, done) {
    const name = short({ kind, stage, number });
    const stages = this.placement.length;
    const most = this.level.micro_batches;
    if (stage >= stages) return `there is no stage ${stage}; the last is ${stages - 1}`;
    if (number >= most) return `there is no micro-batch ${number}; the last is ${most - 1}`;
    if (this.placement[stage] !== rank) return `stage ${stage} is on rank ${this.placement[stage]}`;
    if (done.has(name)) return "it is already in the schedule";
    const before = [...(PARTS_OF[kind] || "")].map((other) => short({ kind: other, stage, number })).find((b) => done.has(b));
    if (!before) return null;
    const [whole, half] = kind === "B" ? [name, before] : [before, name];
    return `${whole} is the whole backward pass, so ${half} would repeat part of it`;
  }

  missing(rank, action, done) {
    const need = needs(action, this.placement.length).find((any) => !any.some((each) => done.has(short(each))));
    if (!need) return null;
    const place = this.placement[need[0].stage];
    return `${wants(action, need)}, which ${place === rank ? "it" : `rank ${place}`} has not done yet`;
  }

  tooMuch(rank, row, action) {
    const held = this.held([...row, action]).at(-1);
    const { cap } = this.level;
    return cap !== null && held > cap ? `it would hold ${held} micro-batches, but the cap is ${cap}` : null;
  }

  // --- what there is ---

  row(rank) {
    return this.moves.filter((move) => move.rank === rank).map((move) => move.action);
  }

  stagesOf(rank) {
    return range(this.placement.length).filter((stage) => this.placement[stage] === rank);
  }

  held(row) {
    let held = 0;
    return row.map(({ kind, stage }) => {
      held += HELD[kind] / this.stagesOf(this.placement[stage]).length;
      return Math.round(held * 1e9) / 1e9;
    });
  }

  // Moves are legal in the order in which they were made, so that one pass gives all times.
  played() {
    const times = new Map();
    const free = this.ranks.map(() => 0);
    for (const { rank, action } of this.moves) {
      const inputs = needs(action, this.placement.length).flat().map((each) => times.get(short(each))?.[1] ?? 0);
      const start = Math.max(free[rank], ...inputs);
      free[rank] = start + SECONDS[action.kind];
      times.set(short(action), [start, free[rank]]);
    }
    const busy = this.ranks.map((rank) => sum(this.row(rank).map(({ kind }) => SECONDS[kind])));
    return { times, free, busy, span: Math.max(...free) };
  }

  work() {
    return 3 * this.level.micro_batches * this.stagesOf(0).length;
  }

  complete() {
    return sum(this.played().busy) === this.work() * this.ranks.length;
  }

  offers(rank) {
    const next = this.stagesOf(rank).flatMap((stage) => [...this.level.kinds].map((kind) => this.meant(rank, kind, stage)));
    return next.map((action) => [short(action), !this.refusal(rank, action)]);
  }

  line() {
    const { free, busy, span } = this.played();
    const whole = span * this.ranks.length;
    const end = Math.max(...this.ranks.map((rank) => free[rank] + this.work() - busy[rank]));
    const least = this.complete() ? "" : `, and at least ${percent(end - this.work(), end)} when complete`;
    const cap = this.level.cap === null ? "" : ` of ${this.level.cap}`;
    const held = this.ranks.map((rank) => `rank ${rank}: ${Math.max(0, ...this.held(this.row(rank)))}${cap}`).join(", ");
    const goesOn = this.complete() || this.ranks.some((rank) => this.offers(rank).some(([, legal]) => legal));
    const stuck = goesOn ? "" : " No move is legal now: undo some.";
    return `Time ${span}. Bubble ${percent(whole - sum(busy), whole)}${least}. Held at most: ${held}.${stuck}`;
  }

  verdict() {
    const { par, par_name, best } = this.level;
    const time = this.played().span;
    const beside = time === par ? "That is par" : `${Math.abs(par - time)} ${time < par ? "below" : "above"} par`;
    const end = time === best ? "no shorter one is known." : `the shortest known takes ${best}.`;
    return `Complete in ${time}. ${beside} (${par_name}: ${par}); ${end}`;
  }

  state() {
    const { level, said, tone } = this;
    const { times, span } = this.played();
    return {
      level: this.number,
      titles: this.levels.map((each) => each.title),
      task: level.task,
      goal: `Par ${level.par} (${level.par_name}), shortest known ${level.best}.`,
      par: level.par,
      micro_batches: level.micro_batches,
      columns: Math.max(level.par, span) + 1,
      ranks: this.ranks.map((rank) => ({
        stages: this.stagesOf(rank),
        cells: this.row(rank).map((action) => [short(action), ...times.get(short(action))]),
        offers: this.offers(rank),
      })),
      line: this.line(),
      said,
      tone,
    };
  }
}
