"""Which name a file from the site gets here: one path component that leaves no folder, hides nothing, and that no tool obeys or runs.

Guarantees, for any text: what `safe` gives is one component of at most 255 bytes of UTF-8, without control, format or bidi characters,
without what Windows or macOS forbid, beginning with neither dot, dash nor tilde; it is no device name and no name of a file of ours; a file
that tools obey or run gets the suffix `.file`. `numbered` keeps all of that. Letters of any script stay. Pure; never raises on any str.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

LONGEST = 255  # bytes
_SUFFIX = ".file"
_ENDING = 40  # bytes; a longer "extension" is part of the name
_ZERO_WIDTH_JOINERS = "\u200c\u200d"  # words of several scripts, and emoji, need them
_FORBIDDEN = '<>:"|?*\\/'
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|clock\$|(com|lpt)[0-9¹²³])[ .]*(\..*)?")
_COMPOUND = re.compile(r"(?i)(.+)(\.tar\.[a-z0-9]{1,5})")

# Ours, and files that start something where they only lie: Python's path files, launchers, macros of the desktop.
_ENDINGS_OBEYED = frozenset(re.findall(r"\S+", """
log jsonl pth desktop directory service command terminal tool workflow webloc inetloc fileloc url lnk scf mobileconfig code-workspace mdc
bat cmd com exe scr pif msi hta vbs vbe ps1 psm1 reg gemspec podspec cabal nimble sublime-project
"""))
_NAMES_OBEYED = frozenset(re.findall(r"\S+", """
agents.md agents.override.md agent.md claude.md claude.local.md gemini.md skill.md copilot-instructions.md cursorrules windsurfrules
clinerules roorules goosehints mcp.json settings.local.json makefile gnumakefile bsdmakefile makefile.am makefile.in justfile rakefile
gemfile guardfile capfile thorfile dockerfile containerfile vagrantfile procfile brewfile jenkinsfile tiltfile fastfile appfile pipfile
podfile cartfile dangerfile snakefile sconstruct sconscript wscript earthfile caddyfile taskfile.yml taskfile.yaml taskfile.dist.yml
cmakelists.txt cmakepresets.json configure configure.ac meson.build meson_options.txt build.xml build.gradle build.gradle.kts
settings.gradle settings.gradle.kts gradle.properties gradlew mvnw pom.xml build.sbt build.sc build.zig build.rs build.bazel module.bazel
workspace.bazel build workspace buck tsconfig.json jsconfig.json conftest.py pytest.ini tox.ini noxfile.py setup.py setup.cfg
pyproject.toml sitecustomize.py usercustomize.py dodo.py __init__.py __main__.py pyvenv.cfg package.json package-lock.json
npm-shrinkwrap.json yarn.lock pnpm-lock.yaml pnpm-workspace.yaml bunfig.toml deno.json deno.jsonc lerna.json nx.json turbo.json
gulpfile.js gulpfile.ts gruntfile.js cargo.toml go.mod go.work composer.json gemfile.lock mix.exs rebar.config stack.yaml package.swift
pubspec.yaml flake.nix default.nix shell.nix devenv.nix docker-compose.yml docker-compose.yaml compose.yml compose.yaml cloudbuild.yaml
serverless.yml netlify.toml vercel.json wrangler.toml fly.toml azure-pipelines.yml bitbucket-pipelines.yml appveyor.yml devcontainer.json
launch.json tasks.json autorun.inf desktop.ini envrc npmrc yarnrc gitmodules gitattributes gitconfig editorconfig bashrc zshrc
bash_profile exrc vimrc nvimrc inputrc gdbinit lldbinit pythonrc irbrc htaccess web.config
"""))
_PATTERNS_OBEYED = re.compile(r".+\.(config|conf)\.[cm]?[jt]s|.+\.(instructions|prompt|chatmode|agent)\.md|docker-compose\..+\.ya?ml")


def safe(offered: str | None, fallback: str = "file") -> str:
    """A name for a file that the site calls `offered`; `fallback` (ours, safe) where nothing of that is left."""
    return _guarded(_plain(offered or "") or fallback)


def numbered(name: str, number: int) -> str:
    """`name-2.ext` for 2 and so on; `name` itself for 1."""
    if number < 2:
        return name
    stem, ending = split(name)
    return _cut(stem, ending, f"-{number}")


def split(name: str) -> tuple[str, str]:
    """Stem and ending (with its dot, or ""); `.tar.gz` and its like are one ending."""
    compound = _COMPOUND.fullmatch(name)
    if compound:
        return compound[1], compound[2]
    stem, dot, ending = name.rpartition(".")
    if not dot or not stem or not ending or len(ending.encode()) >= _ENDING or " " in ending:
        return name, ""
    return stem, dot + ending


def with_ending(name: str, ending: str, *, keep: Collection[str] = ()) -> str:
    """`name.ending`, unless it ends so already, or in one of `keep`."""
    own = split(name)[1][1:].lower()
    return name if own and (own == ending or own in keep) else f"{name}.{ending}"


def is_obeyed(name: str) -> bool:
    """Whether tools obey or run a file of that name, or it is a kind of our own."""
    low = name.lower()
    return low in _NAMES_OBEYED or low.rpartition(".")[2] in _ENDINGS_OBEYED or _PATTERNS_OBEYED.fullmatch(low) is not None


def _plain(offered: str) -> str:
    """The last part of a path, readable; "" where nothing is left."""
    last = next((part for part in reversed(re.split(r"[/\\]", offered)) if part.strip(" .")), "")
    kept = "".join(map(_character, unicodedata.normalize("NFC", last)))
    return " ".join(unicodedata.normalize("NFC", kept).split(" ")).strip(" ").lstrip(". ").rstrip(". ")


def _character(char: str) -> str:
    kind = unicodedata.category(char)
    if char in _FORBIDDEN:
        return "_"
    if kind == "Zs":
        return " "
    if kind in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") and char not in _ZERO_WIDTH_JOINERS:
        return ""
    return char


def _guarded(name: str) -> str:
    if name[0] in "-~" or _DEVICES.fullmatch(name):
        name = "_" + name
    name = _cut(*split(name))
    return _cut(name, _SUFFIX) if is_obeyed(name) else name


def _cut(stem: str, ending: str, mark: str = "") -> str:
    """All of it in LONGEST bytes, the stem giving way; never in the middle of a character."""
    room = LONGEST - len((mark + ending).encode())
    short = stem.encode()[:room].decode("utf-8", "ignore").rstrip(". ")
    return (short or "file") + mark + ending
