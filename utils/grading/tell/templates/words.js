"use strict";
// Writes the points on this page into words.csv, a file that the browser downloads. Nothing is sent anywhere.
const fields = () => [...document.querySelectorAll("[data-student]")];
const quoted = (text) => `"${text.replaceAll('"', '""').replaceAll(/\s+/g, " ").trim()}"`;
const part = (card, name) => card.querySelector(`[name=${name}]`);
let saved = true;

function count() {
  const all = fields();
  const given = all.filter((card) => part(card, "points").value !== "").length;
  document.querySelector("#count").textContent = `${given} of ${all.length} have points`;
}

function rows() {
  const lines = ["student,question,points,of,reason"];
  for (const card of fields()) {
    const of = document.querySelector(`[data-of="${card.dataset.question}"]`).value;
    const cells = [part(card, "points").value, of];
    lines.push([quoted(card.dataset.student), quoted(card.dataset.question), ...cells,
      quoted(part(card, "reason").value)].join(","));
  }
  return lines.join("\n") + "\n";
}

document.addEventListener("input", () => {
  saved = false;
  count();
});
document.querySelector("#save").addEventListener("click", () => {
  const wrong = document.querySelector("input:invalid");
  if (wrong) {
    wrong.reportValidity();
    return;
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([rows()], { type: "text/csv" }));
  link.download = "words.csv";
  link.click();
  saved = true;
});
for (const limit of document.querySelectorAll("[data-of]")) {
  limit.addEventListener("input", () => {
    for (const card of fields()) {
      if (card.dataset.question === limit.dataset.of) part(card, "points").max = limit.value;
    }
  });
}
window.addEventListener("beforeunload", (event) => {
  if (!saved) event.preventDefault();
});
count();
