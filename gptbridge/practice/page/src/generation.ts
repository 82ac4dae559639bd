// The page's two generations: the same page, each part of it under other names. Fixed when the page loads, by the scenario `gen2`.
import { scenario } from "./net";

type Names = Record<string, string | boolean>;

// As captured 2025-10 .. 2026-09.
const FIRST = {
  main: { id: "main" },
  scroller: { "data-scroll-root": true },
  thread: { id: "thread" },
  footer: { id: "thread-bottom-container" },
  header: { id: "page-header" },
  titlebar: {},
  headerActions: { id: "conversation-header-actions" },
  sidebar: { id: "stage-slideover-sidebar" },
  bar: { id: "stage-sidebar-tiny-bar" },
  history: { id: "history" },
  modes: { role: "radiogroup" },
  form: { "data-type": "unified-composer" },
  editor: { id: "prompt-textarea", "data-virtualkeyboard": "true" },
  plus: { id: "composer-plus-btn" },
  attachments: {},
  send: { id: "composer-submit-button", type: "button" },
  stop: { id: "composer-submit-button", type: "button" },
  bubble: {},
  said: {},
  body: { class: "markdown" },
};
export type Part = keyof typeof FIRST;

// As described 2026-09 .. 2026-10: no test ids but a few, and no element of the conversation keeps its former name.
const SECOND: Record<Part, Names> = {
  main: { id: "surface", "data-app-shell-main-surface": "default" },
  scroller: { "data-app-action-timeline-scroll": true },
  thread: { "data-thread-find-target": "conversation", "data-chatgpt-conversation-selection-target": true },
  footer: { "data-thread-scroll-footer": "true" },
  header: { "data-app-shell-titlebar": "true" },
  titlebar: { "data-app-shell-main-titlebar": "true", "data-testid": "app-shell-header-context-menu-surface" },
  headerActions: {},
  sidebar: { "data-app-shell-left-panel-appearance": "default" },
  bar: { "data-app-navigation-rail": "true" },
  history: { "data-app-action-sidebar-scroll": true },
  modes: { role: "tablist" },
  form: { "data-thread-find-composer": "true" }, // and data-chatgpt-composer, but in Work mode
  editor: { "data-composer-markdown": true },
  plus: { "data-composer-navigation-target": "add-context" },
  attachments: { "data-composer-attachments": true },
  send: { type: "submit" },
  stop: { type: "button" },
  bubble: { "data-user-message-bubble": "true" },
  said: { "data-search-result-target": true },
  body: { "data-markdown-text-style": "assistant-message" },
};
const TEST_IDS = new Set(["login-button", "signup-button", "chatgpt-citation", "app-shell-header-context-menu-surface", "toast", "thread-disclaimer"]);

let second = false;

export const isSecond = (): boolean => second;
export const settle = (): void => { second = !!scenario("gen2"); };
export const names = (part: Part): Names => (second ? SECOND : FIRST)[part];

/** Whether an attribute stays: the second generation dropped nearly all test ids. */
export const keeps = (name: string, value: unknown): boolean => !second || name !== "data-testid" || TEST_IDS.has(String(value));
