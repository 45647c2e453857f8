// The whole run as a strip below the lanes: faults, grants, findings, and the window that the lanes show.

const STRIP = 40;

class Strip {
  constructor(timeline) {
    this.timeline = timeline;
    this.canvas = part("timeline-strip");
    const there = (event) => {
      const { view } = timeline, [low, high] = view.whole, half = (view.to - view.from) / 2;
      const t = low + ((event.offsetX - GUTTER) / view.plot) * (high - low);
      timeline.go(t - half, t + half);
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      there(event);
    });
    this.canvas.addEventListener("pointermove", (event) => { if (event.buttons & 1) there(event); });
  }

  draw(view, colours) {
    const pen = sized(this.canvas, view.width, STRIP), { about, series } = this.timeline.data;
    const [low, high] = view.whole, x = (t) => GUTTER + ((t - low) / (high - low)) * view.plot;
    const top = 6, height = STRIP - 10, bottom = top + height;
    pen.fillStyle = colours.soft;
    pen.fillText("whole run", 2, top + 18, GUTTER - 10);
    pen.fillStyle = colours.sunk;
    pen.fillRect(GUTTER, top, view.plot, height);
    pen.fillStyle = colours.line;
    for (const one of about.faults) if (one.effective) pen.fillRect(x(one.from), top, Math.max(x(one.to) - x(one.from), 1), height);
    this.grants(pen, series.grants, view, colours, bottom, height - 8);
    for (const one of byLoudness(about.findings)) {
      pen.fillStyle = toneOf(one, colours);
      pen.fillRect(x(one.t) - 1, bottom - 8, 2.5, 8);
    }
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 1.5;
    const from = Math.max(x(view.from), GUTTER);
    pen.strokeRect(from, top - 2, Math.max(Math.min(x(view.to), view.width - EDGE) - from, 5), height + 4);
    pen.lineWidth = 1;
  }

  grants(pen, grants, view, colours, bottom, height) {
    const [low, high] = view.whole, width = 3, bins = Math.ceil(view.plot / width), per = ((high - low) / view.plot) * width;
    const counts = new Uint32Array(bins);
    let at = 0, most = 1;
    for (let k = 0; k < bins; k++) {
      const next = lower(grants, low + (k + 1) * per, at);
      counts[k] = next - at;
      most = Math.max(most, counts[k]);
      at = next;
    }
    pen.fillStyle = colours["hold-edge"];
    counts.forEach((n, k) => { if (n) pen.fillRect(GUTTER + k * width, bottom - (n / most) * height, width - 1, (n / most) * height); });
  }
}
