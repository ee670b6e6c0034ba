"""Runs Presidio's pattern recognisers for bench/masking: one command a line on standard input, one JSON answer a line on standard output.

There are three engines: "usual" has the recognisers that Presidio turns on by itself, "english" every pattern recogniser that it ships for English,
"every" those for other languages, too, each told that the text is in its own: by itself it asks those of one language only. No language model
is loaded. The engines want a tokenizer for their context words: spaCy's blank English one, which needs no download.
"""

import inspect
import json
import sys
import time
from importlib.metadata import version

import spacy
import tldextract
from presidio_analyzer import AnalyzerEngine, PatternRecognizer, RecognizerRegistry, predefined_recognizers
from presidio_analyzer.nlp_engine import NlpArtifacts, NlpEngine
from presidio_analyzer.predefined_recognizers import PhoneRecognizer


class Blank(NlpEngine):
    """Tokens and no entities."""

    def __init__(self):
        self.nlp = spacy.blank("en")

    def load(self):
        pass

    def is_loaded(self):
        return True

    def process_text(self, text, language):
        doc = self.nlp(text)
        return NlpArtifacts(
            entities=[], tokens=doc, tokens_indices=[t.idx for t in doc], lemmas=[t.lower_ for t in doc], nlp_engine=self, language=language
        )

    def process_batch(self, texts, language, batch_size=1, n_process=1, **kwargs):
        for text in texts:
            yield text, self.process_text(text, language)

    def is_stopword(self, word, language):
        return self.nlp.vocab[word].is_stop

    def is_punct(self, word, language):
        return self.nlp.vocab[word].is_punct

    def get_supported_entities(self):
        return []

    def get_supported_languages(self):
        return ["en"]


def usual(regions):
    """What Presidio turns on by itself, without names and places by a language model."""
    registry = RecognizerRegistry(supported_languages=["en"])
    registry.load_predefined_recognizers(languages=["en"])
    registry.recognizers = [r for r in registry.recognizers if type(r).__name__ != "SpacyRecognizer"]
    if regions:
        registry.recognizers = [r for r in registry.recognizers if type(r).__name__ != "PhoneRecognizer"]
        registry.add_recognizer(PhoneRecognizer(supported_regions=tuple(regions)))
    return engine(registry)


def shipped(regions, languages=None):
    """Every recogniser by patterns or numbers of phones, or those of some languages."""
    registry = RecognizerRegistry([], supported_languages=["en"])
    for _, c in inspect.getmembers(predefined_recognizers, inspect.isclass):
        if not issubclass(c, (PatternRecognizer, PhoneRecognizer)) or inspect.isabstract(c):
            continue
        if languages and inspect.signature(c).parameters["supported_language"].default not in languages:
            continue
        regional = {"supported_regions": tuple(regions)} if regions and c is PhoneRecognizer else {}
        registry.add_recognizer(c(supported_language="en", **regional))
    return engine(registry)


MAKERS = {"usual": usual, "english": lambda regions: shipped(regions, ["en"]), "every": shipped}


def engine(registry):
    return AnalyzerEngine(registry=registry, nlp_engine=Blank(), supported_languages=["en"])


def names(analyzer):
    return sorted(type(r).__name__ for r in analyzer.registry.recognizers)


def main():
    tldextract.extract = tldextract.TLDExtract(suffix_list_urls=())  # the list that comes with it, not one from the network
    regions = sys.argv[1].split(",") if len(sys.argv) > 1 and sys.argv[1] else []
    engines, texts = {}, []
    recognizers = {name: names(make(regions)) for name, make in MAKERS.items()}
    answer({"version": version("presidio-analyzer"), "python": sys.version.split()[0], "recognizers": recognizers})
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "load":
            # New engines: what the tokenizer has seen before makes it slower.
            texts, engines = command["texts"], {name: make(regions) for name, make in MAKERS.items()}
            answer({"texts": len(texts)})
        elif command["do"] == "find":
            found = []
            for text in texts:
                results = engines["usual"].analyze(text=text, language="en")
                found.append([{"start": r.start, "end": r.end, "type": r.entity_type, "score": r.score} for r in results])
            answer({"found": found})
        elif command["do"] == "time":
            begun, passes, analyzer = time.perf_counter(), 0, engines[command["engine"]]
            while passes == 0 or time.perf_counter() - begun < 1:
                for text in texts:
                    analyzer.analyze(text=text, language="en")
                passes += 1
            answer({"seconds": (time.perf_counter() - begun) / passes})


def answer(value):
    print(json.dumps(value), flush=True)


main()
