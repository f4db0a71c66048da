// Search on pages that are opened from the disk: browsers start no worker from file:// there, so that an invisible
// frame of the same page stands in for one. From a server nothing of this happens.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #waiting = [];
    #frame = document.createElement("iframe");

    constructor(url) {
      super();
      const ears = this;
      this.#frame.hidden = true;
      this.#frame.onload = () => {
        const inside = this.#frame.contentWindow;
        inside.postMessage = (data) => ears.#hear(data);
        inside.importScripts = () => {
          throw new Error("importScripts is not there on pages from the disk");
        };
        const script = inside.document.createElement("script");
        script.src = url;
        script.onload = () => {
          for (const data of this.#waiting.splice(0)) this.#tell(data);
          this.#waiting = null;
        };
        inside.document.body.append(script);
      };
      this.#frame.srcdoc = "<!doctype html><body></body>";
      const place = () => document.body.append(this.#frame);
      if (document.body) place();
      else addEventListener("DOMContentLoaded", place);
    }

    postMessage(data) {
      if (this.#waiting) this.#waiting.push(data);
      else this.#tell(data);
    }

    terminate() {
      this.#frame.remove();
    }

    #tell(data) {
      const inside = this.#frame.contentWindow;
      inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    }

    #hear(data) {
      const said = new MessageEvent("message", { data });
      this.dispatchEvent(said);
      this.onmessage?.(said);
    }
  };
}
