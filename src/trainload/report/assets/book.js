"use strict";
// The pages of the book: the theme, and tables of entries, which tables.js filters and sorts.
(() => {
  const { root, chosen } = trainload;
  document.addEventListener("change", (event) => {
    if (event.target.name === "theme") root.dataset.theme = event.target.value;
  });
  root.dataset.theme = chosen("theme");
  const status = document.getElementById("shown");
  const rename = () => {
    if (status) status.textContent = status.textContent.replace("runs shown", "entries shown");
  };
  document.addEventListener("runs-shown", rename);
  rename();
  root.dataset.book = "yes";
})();
