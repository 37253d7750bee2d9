// Search without a server: browsers refuse workers to pages that come from a folder (file://).
// So a worker becomes a hidden frame there, with the same messages to and fro.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inner = frame.contentWindow;
      // What the search script calls in a worker. Scripts load one after the other, as the script awaits them.
      this.inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inner.importScripts = (...urls) => urls.reduce((before, next) => before.then(() => this.load(next)), Promise.resolve());
      this.ready = this.load(url);
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.inner.document.createElement("script");
        Object.assign(script, { src: new URL(url, document.baseURI), onload: resolve, onerror: reject });
        this.inner.document.body.appendChild(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }

    set onmessage(listener) {
      this.addEventListener("message", listener);
    }

    terminate() {
      this.inner.frameElement.remove();
    }
  };
}
