// The composer's editor: a ProseMirror whose document is paragraphs of plain text, one for each line.
import { baseKeymap, splitBlock } from "prosemirror-commands";
import { history, redo, undo } from "prosemirror-history";
import { keymap } from "prosemirror-keymap";
import { Fragment, Node as Doc, Schema, Slice } from "prosemirror-model";
import { EditorState, Plugin, TextSelection, Transaction } from "prosemirror-state";
import { Decoration, DecorationSet, EditorView } from "prosemirror-view";

const schema = new Schema({
  nodes: {
    doc: { content: "paragraph+" },
    paragraph: { content: "text*", parseDOM: [{ tag: "p" }], toDOM: () => ["p", 0] },
    text: {},
  },
});

const lines = (text: string): Doc[] => text.split("\n").map((line) => schema.node("paragraph", null, line ? [schema.text(line)] : []));
const plain = (doc: Doc | Fragment): string => {
  const out: string[] = [];
  doc.forEach((block) => { out.push(block.textContent); });
  return out.join("\n");
};

export interface EditorHooks {
  placeholder(): string;
  limit(): number; // characters that the editor keeps
  changed(text: string, typed: boolean): void;
  submit(): void;
  pasted(text: string): boolean; // true: the paste was taken over (a file was made of it)
  files(files: File[]): void;
}

export class Editor {
  private view: EditorView;

  /** Takes over `element`, whose early text is lost, as it is when a page hydrates. */
  constructor(element: HTMLElement, private hooks: EditorHooks) {
    element.replaceChildren();
    this.view = new EditorView({ mount: element }, {
      state: this.fresh(""),
      dispatchTransaction: (transaction: Transaction) => {
        this.view.updateState(this.view.state.apply(transaction));
        if (transaction.docChanged) this.hooks.changed(this.text, true);
      },
      // Plain text keeps its blank lines; text/html takes ProseMirror's own way.
      clipboardTextParser: (text) => new Slice(Fragment.from(lines(text.replace(/\r\n?/g, "\n"))), 1, 1),
      clipboardTextSerializer: (slice) => plain(slice.content),
      handlePaste: (view, event, slice) => {
        const files = [...(event.clipboardData?.files ?? [])];
        if (files.length) {
          this.hooks.files(files);
          return true;
        }
        if (!this.hooks.pasted(plain(slice.content))) return false;
        if (view.state.doc.content.size > 2) this.set("");
        return true;
      },
    });
  }

  get text(): string {
    return plain(this.view.state.doc);
  }

  /** Replaces everything, with an undo history of its own. */
  set(text: string): void {
    this.view.updateState(this.fresh(text));
    this.hooks.changed(this.text, false);
  }

  focus(): void {
    this.view.focus();
  }

  private fresh(text: string): EditorState {
    const doc = schema.node("doc", null, lines(text));
    const state = EditorState.create({ doc, plugins: [this.keys(), keymap(baseKeymap), history(), this.placeholder(), this.cutter()] });
    return state.apply(state.tr.setSelection(TextSelection.atEnd(state.doc)));
  }

  private keys(): Plugin {
    return keymap({
      Enter: () => { this.hooks.submit(); return true; },
      "Shift-Enter": splitBlock,
      "Mod-z": undo, "Mod-y": redo, "Shift-Mod-z": redo,
    });
  }

  private placeholder(): Plugin {
    return new Plugin({
      props: {
        decorations: ({ doc }) => doc.childCount > 1 || doc.firstChild!.content.size ? null : DecorationSet.create(doc, [
          Decoration.node(0, doc.firstChild!.nodeSize, { class: "placeholder", "data-placeholder": this.hooks.placeholder() }),
        ]),
      },
    });
  }

  // Scenario `truncate-composer`: what goes over the limit is cut in silence.
  private cutter(): Plugin {
    return new Plugin({
      appendTransaction: (changes, _, state) => {
        let room = this.hooks.limit();
        if (!Number.isFinite(room) || !changes.some((change) => change.docChanged)) return null;
        let cut = -1;
        state.doc.forEach((block, offset) => {
          if (cut >= 0) return;
          if (block.content.size > room) cut = offset + 1 + room;
          room -= block.content.size + 1;
          if (cut < 0 && room < 0) cut = offset + block.nodeSize - 1;
        });
        const end = state.doc.content.size - 1;
        return cut >= 0 && cut < end ? state.tr.delete(cut, end) : null;
      },
    });
  }
}
