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
