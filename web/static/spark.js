// Small curves: the last two minutes of one value.
import { svg, setAttr } from "./dom.js";

const width = 60;
const height = 16;

// A Spark draws samples, the newest at the right edge. floor is the least value at the upper edge,
// so that the noise of an idle program stays small.
export class Spark {
  constructor(kind, floor) {
    this.floor = floor;
    this.line = svg("path", { class: "line" });
    this.area = svg("path", { class: "area" });
    this.node = svg("svg", { class: `spark ${kind}`, viewBox: `0 0 ${width} ${height}`,
      preserveAspectRatio: "none", "aria-hidden": "true" }, this.area, this.line);
  }

  draw(values) {
    let top = this.floor;
    for (const value of values) if (value > top) top = value;
    const step = width / (values.length - 1);
    let line = "";
    let area = "";
    let begin = null;
    let last = 0;
    const end = () => {
      if (begin !== null) area += `L${last} ${height}L${begin} ${height}Z`;
      begin = null;
    };
    for (let i = 0; i < values.length; i++) {
      if (Number.isNaN(values[i])) {
        end();
        continue;
      }
      last = Math.round(i * step * 10) / 10;
      const y = Math.round((height - 1.5 - (values[i] / top) * (height - 3)) * 10) / 10;
      const point = `${begin === null ? "M" : "L"}${last} ${y}`;
      line += point;
      area += point;
      if (begin === null) begin = last;
    }
    end();
    setAttr(this.line, "d", line);
    setAttr(this.area, "d", area);
  }
}
