// Parts of the page that are loaded when they are first needed, and cost nothing until then.

export class Features {
  /** `features`: as in `main.js`; `on` is by "click", "submit", "input" or "focusin". */
  constructor(page, features) {
    this.page = page;
    this.asleep = new Set(features);
    page.on("drawn", () => this.look());
    for (const name of ["click", "submit", "input", "focusin"]) document.addEventListener(name, (event) => this.meet(event), { capture: true });
  }

  look() {
    for (const feature of this.asleep) if (feature.when?.(this.page.state)) this.wake(feature);
  }

  /** The first event of a feature waits until that is there, and then happens; those that come meanwhile are the same one. */
  async meet(event) {
    for (const feature of this.asleep) {
      const { type } = event;
      const target = feature.on?.[type] && event.target.closest(feature.on[type]);
      if (!target) continue;
      if (type === "input" || type === "focusin") return this.wake(feature); // which takes part from the next one on
      event.preventDefault();
      event.stopImmediatePropagation();
      if (feature.isHeld) continue;
      feature.isHeld = true;
      const isThere = await this.wake(feature);
      feature.isHeld = false;
      if (!isThere) continue;
      if (type === "click") target.click();
      else target.requestSubmit(event.submitter);
    }
  }

  /** Whether it is there, as soon as that is known. */
  wake(feature) {
    feature.waking ??= this.start(feature);
    return feature.waking;
  }

  async start(feature) {
    try {
      const { start } = await feature.load();
      this.asleep.delete(feature);
      start(this.page);
      return true;
    } catch (problem) {
      if (!(problem instanceof TypeError)) throw problem;
      setTimeout(() => (feature.waking = null), 2000);
      this.page.complain("A part of this page could not be loaded. Look at your connection, then try again.");
      return false;
    }
  }
}
