"""Runs Presidio's pattern recognisers for bench/masking: one command a line on standard input, one JSON answer a line on standard output.

There are two engines: one with the recognisers that Presidio turns on by itself, one with every pattern recogniser that it ships. No language
model is loaded. The engines want a tokenizer for its context words: spaCy's blank English one, which needs no download.
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


def every(regions):
    """Every pattern recogniser, of all countries, and the phone recogniser; each told that the text is in the language of the engine."""
    shipped = [c for _, c in inspect.getmembers(predefined_recognizers, inspect.isclass) if issubclass(c, PatternRecognizer) and not inspect.isabstract(c)]
    registry = RecognizerRegistry([c(supported_language="en") for c in shipped], supported_languages=["en"])
    registry.add_recognizer(PhoneRecognizer(supported_regions=tuple(regions)) if regions else PhoneRecognizer())
    return engine(registry)


def engine(registry):
    return AnalyzerEngine(registry=registry, nlp_engine=Blank(), supported_languages=["en"])


def names(analyzer):
    return sorted(type(r).__name__ for r in analyzer.registry.recognizers)


def main():
    tldextract.extract = tldextract.TLDExtract(suffix_list_urls=())  # the list that comes with it, not one from the network
    regions = sys.argv[1].split(",") if len(sys.argv) > 1 and sys.argv[1] else []
    engines, texts = {"usual": usual(regions), "every": every(regions)}, []
    recognizers = {name: names(analyzer) for name, analyzer in engines.items()}
    answer({"version": version("presidio-analyzer"), "python": sys.version.split()[0], "recognizers": recognizers})
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "load":
            texts = command["texts"]
            answer({"texts": len(texts)})
        elif command["do"] == "find":
            found = []
            for text in texts:
                results = engines["usual"].analyze(text=text, language="en")
                found.append([{"start": r.start, "end": r.end, "type": r.entity_type, "score": r.score} for r in results])
            answer({"found": found})
        elif command["do"] == "time":
            begun, analyzer = time.perf_counter(), engines[command["engine"]]
            for text in texts:
                analyzer.analyze(text=text, language="en")
            answer({"seconds": time.perf_counter() - begun})


def answer(value):
    print(json.dumps(value), flush=True)


main()
