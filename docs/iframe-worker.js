/* The search of pages that are opened from disk. Browsers start no worker from a file, so its script
   runs in a hidden frame instead. Pages load nothing from elsewhere. */
(function () {
  "use strict";
  if (location.protocol !== "file:") return;

  function load(page, url) {
    return new Promise(function (resolve, reject) {
      const script = page.createElement("script");
      script.src = url;
      script.onload = resolve;
      script.onerror = reject;
      page.body.append(script);
    });
  }

  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      inner.document.open();
      inner.document.write("<!doctype html><title>search</title><body></body>");
      inner.document.close();
      // What a worker's script calls: in a frame both would mean something else.
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inner.importScripts = (...urls) =>
        urls.reduce((before, one) => before.then(() => load(inner.document, one)), Promise.resolve());
      this.ready = load(inner.document, new URL(url, document.baseURI).href);
      this.ready.catch(() => this.dispatchEvent(new Event("error")));
    }

    postMessage(data) {
      const inner = this.frame.contentWindow;
      this.ready.then(() => inner.dispatchEvent(new inner.MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  }

  window.Worker = FrameWorker;
})();
