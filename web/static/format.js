// Texts for values of the API. Absent values are an en dash.

export const none = "–";

// bytes writes an amount of memory with three digits: 9.4 MiB.
export function bytes(n) {
  if (n === null || n === undefined) return none;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = n;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

// percent writes a share of one processor: 1 is 100%.
export function percent(share) {
  if (share === null || share === undefined) return none;
  const value = share * 100;
  if (value < 0.05) return "0%";
  return value < 10 ? `${value.toFixed(1)}%` : `${Math.round(value)}%`;
}

// duration writes seconds with its two largest units: 3h 4m. Below ten seconds it has a fraction
// unless whole is true, for a time that is counted up on the page.
export function duration(seconds, whole = false) {
  if (seconds === null || seconds === undefined) return none;
  if (seconds < 1 && !whole) return `${Math.round(seconds * 1000)}ms`;
  if (seconds < 10 && !whole) return `${seconds.toFixed(1)}s`;
  const s = Math.floor(seconds);
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${s % 60}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${Math.floor(s / 60) % 60}m`;
  return `${Math.floor(s / 86400)}d ${Math.floor(s / 3600) % 24}h`;
}

const two = (n) => String(n).padStart(2, "0");

// clock writes the time of day in the browser's zone; with fraction to the millisecond.
export function clock(time, fraction = false) {
  if (!time) return none;
  const t = new Date(time);
  if (Number.isNaN(t.getTime())) return none;
  const text = `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
  return fraction ? `${text}.${String(t.getMilliseconds()).padStart(3, "0")}` : text;
}

export function day(time) {
  const t = new Date(time);
  return `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())}`;
}

// moment writes the time, and the day if it is not today's.
export function moment(time) {
  if (!time) return none;
  const today = day(Date.now());
  return day(time) === today ? clock(time) : `${day(time)} ${clock(time)}`;
}

// exitText says how a run ended.
export function exitText(exit) {
  if (!exit) return none;
  if (exit.known === false) return "unknown";
  return exit.signal ? exit.signal : `status ${exit.code}`;
}

export function plural(n, one, many = `${one}s`) {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

// Sequences that a terminal interprets: colours, titles, cursor movement.
const sequences = new RegExp(
  "\\u001b(?:\\[[0-9;:?<=>!]*[ -/]*[@-~]|\\][^\\u0007\\u001b]*(?:\\u0007|\\u001b\\\\)|[@-Z\\\\^_])", "g");
// Other control characters, and invisible ones that change how text around them is shown.
const controls = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u061c\\u200b-\\u200f\\u2028-\\u202e" +
  "\\u2060-\\u2069\\ufeff]", "g");

// clean makes output of a program harmless to read: without sequences for terminals, and with a
// picture or code in place of what is invisible, so that no text can pose as another.
export function clean(text) {
  return text.replace(sequences, "").replace(controls, (c) => {
    const code = c.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "\u2421" : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

const levels = [
  ["error", /\b(?:error|fatal|panic|critical|crit|emerg|alert|exception|traceback|err|[EF]\d{4})\b/i],
  ["warn", /\b(?:warn|warning)\b/i],
  ["debug", /\b(?:debug|trace|dbg)\b/i],
  ["info", /\b(?:info|notice)\b/i],
];

// levelOf guesses the level of a line from its beginning, where loggers write it: a word "error"
// far inside an access log is no error.
export function levelOf(text) {
  const head = text.slice(0, 96);
  let found = null;
  let at = Infinity;
  for (const [level, pattern] of levels) {
    const match = pattern.exec(head);
    if (match && match.index < at) {
      found = level;
      at = match.index;
    }
  }
  return found;
}

// levelName maps the names that loggers use to those that have a colour.
export function levelName(level) {
  return level ? levelOf(String(level)) ?? "info" : null;
}

// eventText says what an event is about, in a line.
export function eventText(e) {
  const by = e.by && e.kind === "command" ? ` by ${e.by}` : "";
  const reason = e.reason ? clean(e.reason) : "";
  switch (e.kind) {
    case "state":
      return `${e.from ?? ""} → ${e.state}${reason ? `: ${reason}` : ""}` +
        (e.restart_in_s ? `; again in ${duration(e.restart_in_s)}` : "");
    case "start":
      return `pid ${e.pid} started${reason ? ` (${reason})` : ""}`;
    case "exit":
      return `pid ${e.pid} ended: ${reason || exitText(e.exit)}` +
        (e.duration_s === undefined ? "" : ` after ${duration(e.duration_s)}`) +
        (e.cpu_s === undefined ? "" : `, processor time ${duration(e.cpu_s)}`) +
        (e.max_rss_bytes ? `, peak ${bytes(e.max_rss_bytes)}` : "");
    case "output":
      return reason || "last lines of the run";
    case "gap":
      return e.lost ? `${plural(e.lost, "event")} missing` : "events are missing";
    case "socket":
      return `${e.socket ?? ""} ${e.address ?? ""} ${e.state ?? ""}${reason ? `: ${reason}` : ""}`
        .trim();
    default: {
      const state = e.state ? `${e.state}${reason ? ": " : ""}` : "";
      return `${state}${reason}${by}` || e.reason_kind || e.kind;
    }
  }
}

// isProblem tells events that an operator looks for from those of daily life.
export function isProblem(e) {
  switch (e.kind) {
    case "state": return e.state === "failed" || e.state === "backoff";
    case "health": return e.state === "unhealthy";
    case "exit": return Boolean(e.exit) && e.exit.code !== 0 && e.reason_kind !== "stop-signal";
    case "outage": return e.state !== "over";
    case "socket": return e.state === "failed" || e.state === "paused";
    case "roll": return e.state === "held";
    case "reload": return /refused|not-reloaded|stalled/.test(e.reason_kind ?? "");
    case "no-start": case "output": case "gap": return true;
    default: return false;
  }
}
