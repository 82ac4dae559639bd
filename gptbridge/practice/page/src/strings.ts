// Every visible label, in the languages that the page speaks. Test ids and roles never change with the language.
const EN = {
  chatWith: "Chat with ChatGPT", placeholder: "Ask anything", hello: "What can I help with?", disclaimer: "ChatGPT can make mistakes. Check important info.",
  practice: "Practice site", send: "Send prompt", stop: "Stop streaming", voice: "Start Voice", dictate: "Start dictation", plus: "Add files and more",
  addFiles: "Add photos & files", search: "Search", removeHint: "Remove {0}", removeFile: "Remove file {0}: {1}", uploading: "Uploading", uploadFailed: "Upload failed",
  document: "Document", image: "Image", youSaid: "You said:", gptSaid: "ChatGPT said:", yourActions: "Your message actions", responseActions: "Response actions",
  copy: "Copy", edit: "Edit message", good: "Good response", bad: "Bad response", share: "Share", switchModel: "Switch model", more: "More actions",
  readAloud: "Read aloud", stopReading: "Stop reading aloud", thinking: "Thinking", thoughtFor: "Thought for {0}s", thoughtMoment: "Thought for a couple of seconds",
  stoppedThinking: "Stopped thinking", wrong: "Something went wrong", retry: "Retry", regenerate: "Try again", showMore: "Show more", showLess: "Show less",
  copyCode: "Copy code", copyTable: "Copy table", previous: "Previous response", next: "Next response", cancel: "Cancel", sendEdit: "Send",
  newChat: "New chat", chats: "Chats", openSidebar: "Open sidebar", closeSidebar: "Close sidebar", options: "Open conversation options", options2: "Conversation options",
  rename: "Rename", archive: "Archive", remove: "Delete", copied: "Link copied", failed: "That did not work", profile: "Open profile menu", logOut: "Log out",
  login: "Log in", signup: "Sign up for free", chat: "Chat", work: "Work", mode: "Mode", model: "Model selector, current model is {0}",
  unable: "Unable to load conversation {0}", tooMany: "Too many requests", gotIt: "Got it", generating: "ChatGPT is generating a response", done: "ChatGPT finished the response",
  tooManyText: "You are making requests too quickly. To protect your data, access to your conversations is limited for a few minutes.",
  history: "Chat history", noChats: "Your conversations will appear here.", untitled: "New chat", guestNote: "Log in to get answers based on saved chats.",
  askGpt: "Ask ChatGPT", stopShort: "Stop", addPhotos: "Attach photos or videos", preview: "Preview file",
  selectModel: "Select ChatGPT model", effort: "Thinking effort", power: "Power", effortOf: "{0}, {1} of {2}.", effortStandard: "Standard", effortExtended: "Extended",
  close: "Close", renamePrompt: "New name", networkError: "A network error occurred.", imageAlt: "Generated image", interrupted: "You stopped this response", noVoice: "The practice site has no voice.",
  capped: "You've reached the limit. Try again after 5:00 PM.", noticeTitle: "We updated our terms", noticeText: "Please read them before you go on.",
  approvalTitle: "Allow this tool?", approvalText: "It wants to send a message for you.", allowOnce: "Allow once", deny: "Deny", welcomeBack: "Welcome back", chooseAccount: "Choose an account to continue.",
};
type Key = keyof typeof EN;
const DE: Record<Key, string> = {
  chatWith: "Mit ChatGPT chatten", placeholder: "Stelle irgendeine Frage", hello: "Wobei kann ich helfen?", disclaimer: "ChatGPT kann Fehler machen. Überprüfe wichtige Informationen.",
  practice: "Übungsseite", send: "Prompt senden", stop: "Streaming beenden", voice: "Sprachmodus starten", dictate: "Diktat starten", plus: "Dateien und mehr hinzufügen",
  addFiles: "Fotos und Dateien hinzufügen", search: "Suche", removeHint: "{0} entfernen", removeFile: "Datei {0} entfernen: {1}", uploading: "Wird hochgeladen", uploadFailed: "Hochladen fehlgeschlagen",
  document: "Dokument", image: "Bild", youSaid: "Du hast gesagt:", gptSaid: "ChatGPT hat gesagt:", yourActions: "Aktionen für deine Nachricht", responseActions: "Aktionen für die Antwort",
  copy: "Kopieren", edit: "Nachricht bearbeiten", good: "Gute Antwort", bad: "Schlechte Antwort", share: "Teilen", switchModel: "Modell wechseln", more: "Weitere Aktionen",
  readAloud: "Vorlesen", stopReading: "Vorlesen beenden (Stop)", thinking: "Denkt nach", thoughtFor: "{0} s lang nachgedacht", thoughtMoment: "Ein paar Sekunden nachgedacht",
  stoppedThinking: "Nachdenken beendet", wrong: "Etwas ist schiefgelaufen", retry: "Erneut versuchen", regenerate: "Noch einmal", showMore: "Mehr anzeigen", showLess: "Weniger anzeigen",
  copyCode: "Code kopieren", copyTable: "Tabelle kopieren", previous: "Vorherige Antwort", next: "Nächste Antwort", cancel: "Abbrechen", sendEdit: "Senden",
  newChat: "Neuer Chat", chats: "Chats", openSidebar: "Seitenleiste öffnen", closeSidebar: "Seitenleiste schließen", options: "Chat-Optionen öffnen", options2: "Chat-Optionen",
  rename: "Umbenennen", archive: "Archivieren", remove: "Löschen", copied: "Link kopiert", failed: "Das hat nicht geklappt", profile: "Profilmenü öffnen", logOut: "Abmelden",
  login: "Anmelden", signup: "Kostenlos registrieren", chat: "Chat", work: "Arbeit", mode: "Modus", model: "Modellauswahl, aktuelles Modell ist {0}",
  unable: "Unterhaltung {0} konnte nicht geladen werden", tooMany: "Zu viele Anfragen", gotIt: "Verstanden", generating: "ChatGPT erstellt eine Antwort", done: "ChatGPT hat die Antwort fertiggestellt",
  tooManyText: "Du stellst zu schnell Anfragen. Zum Schutz deiner Daten ist der Zugriff auf deine Unterhaltungen für einige Minuten eingeschränkt.",
  history: "Chatverlauf", noChats: "Deine Unterhaltungen erscheinen hier.", untitled: "Neuer Chat", guestNote: "Melde dich an, um Antworten aus gespeicherten Chats zu erhalten.",
  askGpt: "ChatGPT fragen", stopShort: "Anhalten", addPhotos: "Fotos oder Videos anhängen", preview: "Dateivorschau",
  selectModel: "ChatGPT-Modell auswählen", effort: "Denkaufwand", power: "Leistung", effortOf: "{0}, {1} von {2}.", effortStandard: "Standard", effortExtended: "Erweitert",
  close: "Schließen", renamePrompt: "Neuer Name", networkError: "Ein Netzwerkfehler ist aufgetreten.", imageAlt: "Generiertes Bild", interrupted: "Du hast diese Antwort angehalten", noVoice: "Die Übungsseite hat keine Sprachfunktion.",
  capped: "Du hast das Limit erreicht. Versuche es nach 17:00 Uhr noch einmal.", noticeTitle: "Unsere Bedingungen sind neu", noticeText: "Bitte lies sie, bevor es weitergeht.",
  approvalTitle: "Dieses Werkzeug erlauben?", approvalText: "Es will eine Nachricht für dich senden.", allowOnce: "Einmal erlauben", deny: "Ablehnen", welcomeBack: "Willkommen zurück", chooseAccount: "Wähle ein Konto.",
};

const ES: Record<Key, string> = {
  chatWith: "Chatear con ChatGPT", placeholder: "Pregunta lo que quieras", hello: "¿En qué puedo ayudarte?", disclaimer: "ChatGPT puede cometer errores. Comprueba la información importante.",
  practice: "Sitio de práctica", send: "Enviar indicación", stop: "Detener la transmisión", voice: "Iniciar voz", dictate: "Iniciar dictado", plus: "Agregar archivos y más",
  addFiles: "Agregar fotos y archivos", search: "Buscar", removeHint: "Quitar {0}", removeFile: "Quitar archivo {0}: {1}", uploading: "Subiendo", uploadFailed: "No se pudo subir",
  document: "Documento", image: "Imagen", youSaid: "Tú dijiste:", gptSaid: "ChatGPT dijo:", yourActions: "Acciones de tu mensaje", responseActions: "Acciones de la respuesta",
  copy: "Copiar", edit: "Editar mensaje", good: "Buena respuesta", bad: "Mala respuesta", share: "Compartir", switchModel: "Cambiar modelo", more: "Más acciones",
  readAloud: "Leer en voz alta", stopReading: "Dejar de leer (Stop)", thinking: "Pensando", thoughtFor: "Pensó durante {0} s", thoughtMoment: "Pensó durante un par de segundos",
  stoppedThinking: "Dejó de pensar", wrong: "Algo salió mal", retry: "Reintentar", regenerate: "Probar otra vez", showMore: "Mostrar más", showLess: "Mostrar menos",
  copyCode: "Copiar código", copyTable: "Copiar tabla", previous: "Respuesta anterior", next: "Respuesta siguiente", cancel: "Cancelar", sendEdit: "Enviar",
  newChat: "Nuevo chat", chats: "Chats", openSidebar: "Abrir barra lateral", closeSidebar: "Cerrar barra lateral", options: "Abrir opciones del chat", options2: "Opciones del chat",
  rename: "Cambiar nombre", archive: "Archivar", remove: "Eliminar", copied: "Enlace copiado", failed: "No ha funcionado", profile: "Abrir menú del perfil", logOut: "Cerrar sesión",
  login: "Iniciar sesión", signup: "Suscríbete gratis", chat: "Chat", work: "Trabajo", mode: "Modo", model: "Selector de modelo, el modelo actual es {0}",
  unable: "No se puede cargar la conversación {0}", tooMany: "Demasiadas solicitudes", gotIt: "Entendido", generating: "ChatGPT está generando una respuesta", done: "ChatGPT terminó la respuesta",
  tooManyText: "Haces solicitudes demasiado rápido. Para proteger tus datos, el acceso a tus conversaciones queda limitado unos minutos.",
  history: "Historial de chats", noChats: "Aquí aparecerán tus conversaciones.", untitled: "Nuevo chat", guestNote: "Inicia sesión para obtener respuestas basadas en tus chats.",
  askGpt: "Pregunta a ChatGPT", stopShort: "Detener", addPhotos: "Adjuntar fotos o vídeos", preview: "Vista previa del archivo",
  selectModel: "Seleccionar modelo de ChatGPT", effort: "Esfuerzo de razonamiento", power: "Potencia", effortOf: "{0}, {1} de {2}.", effortStandard: "Estándar", effortExtended: "Ampliado",
  close: "Cerrar", renamePrompt: "Nombre nuevo", networkError: "Se produjo un error de red.", imageAlt: "Imagen generada (Generated image)", interrupted: "Detuviste esta respuesta", noVoice: "El sitio de práctica no tiene voz.",
  capped: "Has alcanzado el límite. Inténtalo de nuevo después de las 17:00.", noticeTitle: "Nuestras condiciones han cambiado", noticeText: "Léelas antes de continuar.",
  approvalTitle: "¿Permitir esta herramienta?", approvalText: "Quiere enviar un mensaje por ti.", allowOnce: "Permitir una vez", deny: "Denegar", welcomeBack: "Te damos la bienvenida", chooseAccount: "Elige una cuenta.",
};

const TABLES: Record<string, Record<Key, string>> = { en: EN, de: DE, es: ES };
let table: Record<Key, string> = EN;

/** Chooses the language: "en", "de" or "es"; anything else is English. */
export function speak(language: string): void {
  const known = language in TABLES ? language : "en";
  table = TABLES[known];
  document.documentElement.lang = known;
}

/** The label in the chosen language, with `{0}`, `{1}` filled in. */
export function t(key: Key, ...values: (string | number)[]): string {
  return table[key].replace(/\{(\d)\}/g, (_, index: string) => String(values[Number(index)] ?? ""));
}
