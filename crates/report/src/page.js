"use strict";
// The page is complete without this: it adds a choice of functions, and opens the folds
// that would be missing on paper.
const chooser = document.querySelector(".chooser");
const functions = [...document.querySelectorAll("details.function")];
if (chooser) {
  chooser.hidden = false;
  const select = chooser.querySelector("select");
  const show = () => {
    for (const fold of functions) {
      fold.hidden = select.value !== "" && fold.id !== select.value;
      if (fold.id === select.value) fold.open = true;
    }
  };
  select.addEventListener("change", show);
  show();
}
addEventListener("beforeprint", () => {
  for (const fold of functions) fold.open = true;
});
