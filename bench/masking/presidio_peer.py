"""Runs Presidio's pattern recognisers for bench/masking: one command a line on standard input, one JSON answer a line on standard output.

No language model is loaded. The engine wants a tokenizer for its context words: spaCy's blank English one, which needs no download.
"""

import json
import sys
import time
from importlib.metadata import version

import spacy
import tldextract
from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
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


def engine(regions):
    registry = RecognizerRegistry(supported_languages=["en"])
    registry.load_predefined_recognizers(languages=["en"])
    registry.recognizers = [r for r in registry.recognizers if type(r).__name__ != "SpacyRecognizer"]
    if regions:
        registry.recognizers = [r for r in registry.recognizers if type(r).__name__ != "PhoneRecognizer"]
        registry.add_recognizer(PhoneRecognizer(supported_regions=tuple(regions)))
    return AnalyzerEngine(registry=registry, nlp_engine=Blank(), supported_languages=["en"])


def main():
    tldextract.extract = tldextract.TLDExtract(suffix_list_urls=())  # the list that comes with it, not one from the network
    regions = sys.argv[1].split(",") if len(sys.argv) > 1 and sys.argv[1] else []
    analyzer, texts = engine(regions), []
    names = sorted(type(r).__name__ for r in analyzer.registry.recognizers)
    answer({"version": version("presidio-analyzer"), "python": sys.version.split()[0], "recognizers": names})
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "load":
            texts = command["texts"]
            answer({"texts": len(texts)})
        elif command["do"] == "find":
            found = []
            for text in texts:
                results = analyzer.analyze(text=text, language="en")
                found.append([{"start": r.start, "end": r.end, "type": r.entity_type, "score": r.score} for r in results])
            answer({"found": found})
        elif command["do"] == "time":
            begun = time.perf_counter()
            for text in texts:
                analyzer.analyze(text=text, language="en")
            answer({"seconds": time.perf_counter() - begun})


def answer(value):
    print(json.dumps(value), flush=True)


main()
