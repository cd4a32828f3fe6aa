(() => {
  // Before anything is drawn: the chosen scheme, and the same cover as the first page until ours is there.
  const chosen = localStorage.getItem("bonsai.theme");
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.classList.toggle("b-dark", dark);
  const cover = document.createElement("div");
  cover.id = "b-cover";
  cover.innerHTML = '<div><span class="b-cover-name">Bonsai</span></div>';
  document.documentElement.append(cover);
  // The settings' components ask for their values when Gradio loads, maybe before our scripts are there.
  let ready;
  const values = new Promise((go) => { ready = go; });
  window.bonsaiSettingsReady = ready;
  window.bonsaiSettings = async (names) => {
    const found = await values;
    return names.map((name) => found[name] ?? null);
  };
})();
