(() => {
  // Before anything is drawn: the chosen scheme, and the same cover as the first page until ours is there.
  const chosen = localStorage.getItem("bonsai.theme");
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.classList.toggle("b-dark", dark);
  const cover = document.createElement("div");
  cover.id = "b-cover";
  cover.textContent = "Bonsai";
  document.documentElement.append(cover);
  // Gradio's "Loading" sign leaves a stopwatch behind that counts for ever, sixty times a second, a tenth of a
  // core. Nobody sees it: where no such sign is on show, its callbacks come twice a second.
  const draw = window.requestAnimationFrame.bind(window);
  const stopwatch = /performance\.now\(\)\s*-[^;]{1,40}\/\s*1e3/;
  window.requestAnimationFrame = (callback) => {
    const counts = stopwatch.test(Function.prototype.toString.call(callback));
    if (counts && !document.querySelector("[data-testid='status-tracker']:not(.hide)")) {
      return setTimeout(() => draw(callback), 500);
    }
    return draw(callback);
  };
  // The settings' components ask for their values when Gradio loads, maybe before our scripts are there.
  let ready;
  const values = new Promise((go) => { ready = go; });
  window.bonsaiSettingsReady = ready;
  window.bonsaiSettings = async (names) => {
    const found = await values;
    return names.map((name) => found[name] ?? null);
  };
})();
