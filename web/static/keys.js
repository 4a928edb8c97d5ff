// Keys of the keyboard. A page adds its own and takes them away when it is left.

const fields = "input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]";

export class Keys {
  constructor() {
    this.bindings = new Map();
    this.prefix = "";
    addEventListener("keydown", (event) => this.#key(event));
  }

  // bind maps keys ("j", "ArrowDown", "g p") to functions. A function that returns false leaves the
  // key to the browser. The result takes them away again.
  bind(map) {
    for (const [key, f] of Object.entries(map)) this.bindings.set(key, f);
    return () => {
      for (const [key, f] of Object.entries(map)) {
        if (this.bindings.get(key) === f) this.bindings.delete(key);
      }
    };
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    // A dialog has its own keys, of which the browser does Escape and Tab.
    if (document.querySelector("dialog[open]")) return;
    const typing = event.target instanceof Element && event.target.matches(fields);
    if (typing && event.key !== "Escape") return;
    const key = this.prefix ? `${this.prefix} ${event.key}` : event.key;
    this.prefix = "";
    clearTimeout(this.timer);
    if (!typing && key === "g") {
      this.prefix = "g";
      this.timer = setTimeout(() => { this.prefix = ""; }, 1500);
      return;
    }
    const f = this.bindings.get(key);
    if (f && f(event) !== false) event.preventDefault();
  }
}
