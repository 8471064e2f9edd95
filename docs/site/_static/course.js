// The picture that moves can be stopped.
addEventListener("DOMContentLoaded", () => {
  const button = document.querySelector("button.pause");
  button?.addEventListener("click", () => {
    const still = document.querySelector(".moving").classList.toggle("still");
    button.textContent = still ? "Go on" : "Stop the picture";
  });
});

// A table that is wider than its place is scrolled by keyboard, too.
addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll(".bd-content table")) {
    if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
  }
});

// Paper cannot be asked: it gets the results that are folded on the screen.
let unfolded = [];
addEventListener("beforeprint", () => {
  unfolded = [...document.querySelectorAll("details.hide:not([open])")];
  for (const each of unfolded) each.open = true;
});
addEventListener("afterprint", () => {
  for (const each of unfolded) each.open = false;
});
