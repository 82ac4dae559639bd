// How a reply stream is read: server-sent events, and the delta encoding v1 inside them.
export interface Frame { event: string; data: string }

/** Cuts a stream of text pieces into server-sent events. */
export class EventReader {
  private rest = "";

  push(text: string): Frame[] {
    this.rest += text;
    const frames: Frame[] = [];
    for (;;) {
      const end = /\r?\n\r?\n/.exec(this.rest);
      if (!end) return frames;
      const block = this.rest.slice(0, end.index);
      this.rest = this.rest.slice(end.index + end[0].length);
      const frame: Frame = { event: "", data: "" };
      const data: string[] = [];
      for (const line of block.split(/\r?\n/)) {
        if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
        else if (line.startsWith("event:")) frame.event = line.slice(6).trim();
      }
      frame.data = data.join("\n");
      if (data.length) frames.push(frame);
    }
  }
}

interface Delta { p?: string; o?: string; v?: unknown; c?: number }
type Tree = Record<string, unknown>;

/** Applies delta frames. A missing `p` or `o` repeats the previous one; `c` names the message that the frame belongs to. */
export class DeltaDecoder {
  private path = "";
  private op = "add";
  private leaf = ""; // the path that the last operation changed
  private counter = 0;
  private documents = new Map<number, Tree>();

  /** The document (`{message, conversation_id, error}`) as it is after this frame. */
  apply(delta: Delta): Tree | undefined {
    if (delta.c !== undefined) this.counter = delta.c;
    if (delta.p !== undefined) this.path = delta.p;
    if (delta.o !== undefined) this.op = delta.o;
    // A bare `{"v": [...]}` after a patch is a patch again; a bare string after one goes to the path that the patch ended on.
    if (delta.o === undefined && this.op === "patch" && !Array.isArray(delta.v)) [this.path, this.op] = [this.leaf, "append"];
    this.change(this.path, this.op, delta.v);
    return this.documents.get(this.counter);
  }

  private change(path: string, op: string, value: unknown): void {
    if (op === "patch") {
      let last = { p: path, o: "append" };
      for (const part of value as Delta[]) {
        last = { p: path + (part.p ?? ""), o: part.o ?? last.o };
        this.change(last.p, last.o, part.v);
      }
      return;
    }
    this.leaf = path;
    const keys = path.split("/").slice(1).map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
    if (!keys.length) {
      this.documents.set(this.counter, value as Tree);
      return;
    }
    let target = this.documents.get(this.counter) as Tree | undefined;
    for (const key of keys.slice(0, -1)) target = target?.[key] as Tree | undefined;
    if (!target || typeof target !== "object") return;
    const key = keys[keys.length - 1];
    const before = target[key];
    if (op === "remove") delete target[key];
    else if (op !== "append") target[key] = value;
    else if (typeof before === "string") target[key] = before + String(value);
    else if (Array.isArray(before)) target[key] = before.concat(value);
    else if (before && typeof before === "object") Object.assign(before, value);
    else target[key] = value;
  }
}
