"""The race's own prompts: six kinds of text in English, Italian and German. Pure.

What speculation gains depends on the text far more than on the machine, so one prompt alone says little. Each
asks for some 300 tokens of one kind; the rewriting ones carry a long input that comes back almost unchanged.
"""

from __future__ import annotations

from dataclasses import replace

from launcher.errors import BadInput
from launcher.practice_texts import REWRITE_INPUT
from launcher.race_types import Prompt

KINDS = ("code", "prose", "maths", "chat", "rewrite", "thinking")
LANGUAGES = {"en": "English", "it": "Italiano", "de": "Deutsch"}
# What people also call them.
ALIASES = {
    "math": "maths",
    "mathematics": "maths",
    "rewriting": "rewrite",
    "story": "prose",
    "think": "thinking",
    "reasoning": "thinking",
}

_TEXTS: dict[str, dict[str, str]] = {
    "code": {
        "en": "Write a Python function that merges two sorted lists into one, without using sort, with a docstring "
        "and three assertions.",
        "it": "Scrivi in Python una classe CodaConPriorita con i metodi inserisci ed estrai in tempo O(log n), con una "
        "docstring per metodo e un piccolo test alla fine.",
        "de": "Schreibe in Python eine Klasse Ringpuffer mit den Methoden anhaengen und entnehmen, jede mit Docstring, "
        "und am Ende einen kleinen Test.",
    },
    "prose": {
        "en": "Tell a story of about 300 words: a ferry that has crossed the same river for forty years makes its last "
        "trip, and the only passenger is someone the ferryman did not expect.",
        "it": "Scrivi un racconto di circa 300 parole su una stazione di montagna dove non ferma nessun treno da anni; "
        "l'ultima riga deve rovesciare tutto.",
        "de": "Schreibe eine Geschichte von etwa 300 Worten: Eine Uhrmacherin bekommt eine Taschenuhr gebracht, die "
        "rückwärts geht, und erkennt die Gravur auf dem Deckel.",
    },
    "maths": {
        "en": "Prove by induction that the sum of the first n odd numbers is the square of n, then check the formula "
        "for n = 1 to 5 in a table.",
        "it": "Dimostra per induzione che la somma dei primi n numeri naturali vale n(n+1)/2, poi verifica la formula "
        "con una tabella per n da 1 a 5.",
        "de": "Beweise durch vollständige Induktion die Formel für die Summe der ersten n Kubikzahlen und prüfe sie "
        "in einer Tabelle für n von 1 bis 5.",
    },
    "chat": {
        "en": "Hi! I have three days off next week and no plans. What would you do in a small town by the sea when it "
        "rains?",
        "it": "Ciao! Stasera vengono a cena quattro amici e ho in casa solo ceci, limoni e pane. Che cosa mi consigli?",
        "de": "Hallo! Mein Nachbar übt jeden Abend Trompete. Wie spreche ich das freundlich an, ohne dass er sich "
        "gekränkt fühlt?",
    },
    "rewrite": {
        "en": "Rewrite this file with type hints and change nothing else. Give only the file.\n\n{input}",
        "it": "Riscrivi questo file con le annotazioni di tipo, senza cambiare altro. Rispondi solo con il file.\n\n"
        "{input}",
        "de": "Formuliere die folgende Datei mit Typangaben neu und ändere sonst nichts. Antworte nur mit der Datei.\n\n"
        "{input}",
    },
    "thinking": {
        "en": "Think step by step: a candle of 20 cm burns 3 cm in an hour, a second one of 16 cm burns 2 cm in an "
        "hour. When are they equally tall, and how tall are they then?",
        "it": "Ragiona passo dopo passo: una vasca si riempie in 6 ore con un rubinetto e in 4 con un altro, ma lo "
        "scarico la vuota in 12. In quanto tempo si riempie con tutto aperto?",
        "de": "Denke Schritt für Schritt nach: Drei Freunde teilen sich 17 Euro so, dass jeder 2 Euro mehr bekommt "
        "als der vorige. Geht das mit ganzen Euro, und wenn nicht, was fehlt?",
    },
}

# What the lab asks in Italian where it differs from the race: short tasks that are easy to compare elsewhere.
_LAB_TEXTS = {
    ("prose", "it"): "Scrivi un racconto di 300 parole su un faro abbandonato, con un finale a sorpresa.",
    (
        "code",
        "it",
    ): "Scrivi in Python una classe LRUCache con metodi get e put, complessità O(1), con docstring e un "
    "piccolo test.",
}


def prompt(kind: str, language: str = "en") -> Prompt:
    """The prompt of that kind and language. Raises BadInput for one that there is not."""
    name = ALIASES.get(kind.strip().lower(), kind.strip().lower())
    if name not in KINDS:
        raise BadInput(f"There is no prompt of kind {kind!r}.", f"Choose one of {', '.join(KINDS)}.")
    if language not in LANGUAGES:
        raise BadInput(
            f"There is no prompt in language {language!r}.", f"Choose one of {', '.join(LANGUAGES)}."
        )
    return Prompt(_TEXTS[name][language].replace("{input}", REWRITE_INPUT.strip()), name, language)


def whole_set(language: str = "en") -> tuple[Prompt, ...]:
    """One prompt of each kind. Raises BadInput for an unknown language."""
    return tuple(prompt(kind, language) for kind in KINDS)


def lab_prompt(kind: str, language: str = "en") -> Prompt:
    """The lab's prompt of that kind and language. Raises BadInput for one that there is not."""
    ours = prompt(kind, language)
    return replace(ours, text=_LAB_TEXTS.get((ours.kind, language), ours.text))
