/* Before the first paint: the theme that the person chose, in Parley or here. The value is Alpine's, for the theme's scripts. */
localStorage.setItem("adminTheme", JSON.stringify(document.currentScript.dataset.theme || "auto"));
