// The texts of a definition that an editor had, for undo and redo.

const MOST = 200;

export class Texts {
  constructor(text) {
    this.past = [];
    this.now = text;
    this.future = [];
  }

  get canUndo() {
    return this.past.length > 0;
  }

  get canRedo() {
    return this.future.length > 0;
  }

  /** The text that is shown now; whether it is a new one. A new one ends what could be redone. */
  keep(text) {
    if (text === this.now) return false;
    this.past = [...this.past, this.now].slice(-MOST);
    this.now = text;
    this.future = [];
    return true;
  }

  /** The text before this one; null if there is none. */
  undo() {
    if (!this.canUndo) return null;
    this.future.push(this.now);
    return (this.now = this.past.pop());
  }

  redo() {
    if (!this.canRedo) return null;
    this.past.push(this.now);
    return (this.now = this.future.pop());
  }
}
