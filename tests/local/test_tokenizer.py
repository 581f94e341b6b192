"""The tokenizer, id for id with llama.cpp, and what it says of single tokens."""

import random
import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oai_nb.errors import WeightsError
from oai_nb.local.tokenizer import Tokenizer, words

CORPUS = {
    "english": "The quick brown fox -- it's 3.14 o'clock; they'll say \"we've HE'S I'M\" 1,234,567 times!",
    "code": "def f(x: int) -> dict[str, int]:\n\treturn {k: v for k, v in x.items()}  # noqa\r\n\n\n",
    "white space": "a  b   c\n\n d\t\te \n\t f \r\n  1   2\n3 \u00a0x\u3000y\u2028z  \u2009q   ",
    "contractions": "'s't're've'm'll'd 'S 'T ''s '' 's's can't won't 'tis rock'n'roll d'accord l'été '",
    "german": "Fußgängerübergänge, Straßenbahn – „schön“ und größer",
    "greek": "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία",
    "cyrillic": "Съешь же ещё этих мягких французских булок",
    "hebrew and arabic": "עטלף אבק נס דרך מזגן שהתפוצץ כי חם نص حكيم له سر قاطع ٣٤٥",
    "devanagari": "ऋषियों को सताने वाले दुष्ट राक्षसों १२३",
    "thai": "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า",
    "cjk": "いろはにほへと ちりぬるを 视野无限广 窗外有蓝天 키스의 고유조건은 １２３ ⅷ ½ ²",
    "emoji": "👍🏽 👨‍👩‍👧‍👦 🇫🇷 ❤️ e\u0301 ñ n\u0303",
    "controls": "a\x00b\x01\x04\x06c\x13\x14\x16\x1d\x1c\x1f d\x7f\x85e",
    "special": "<|im_start|>user\nhi<|im_end|>\n<|endoftext|><<|im_end|>|<filename>x<|im_start><|IM_END|>",
    "json": '{"a": [1, 2.5e-3, null], "b": {"c": "\\u00e9\\n"}}',
    "tex": r"\frac{\partial^2 u}{\partial t^2} = c^2 \nabla^2 u",
    "rare planes": "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 𠜎 \U0001f9ff \U000e0001 \U0010fffd",
    "empty": "",
    "long runs": " " * 300 + "x" + "\n" * 300 + "a" * 300 + "'" * 99 + "ab" * 200 + "=" * 300,
}


@pytest.mark.parametrize("text", CORPUS.values(), ids=CORPUS.keys())
def test_same_ids_as_llama_cpp(tokenizer, peer, text):
    assert tokenizer.encode(text) == peer.tokenize(text)


def test_same_ids_as_llama_cpp_on_random_mixtures(tokenizer, peer):
    # Many short ones of what decides where words end; a mixture is one request, for speed.
    pool = [
        *"aAstrevmldSLO' \t\n\r\v\u00a0\u3000\u2028129é٣ⅷ½ßñ日本한👍\u200d\x00\x04\x1c\x85_-.,!{}<>|\u0301Жα"
    ]
    pool += ["'s", "'ll", "<|im_end|>", "<filename>", "  ", "\n\n", " 1", " '"]
    rng = random.Random(1)
    for _ in range(150):
        text = "\x7f".join("".join(rng.choices(pool, k=rng.randint(1, 30))) for _ in range(60))
        assert tokenizer.encode(text) == peer.tokenize(text)


def test_same_ids_as_llama_cpp_on_random_unicode(tokenizer, peer):
    # Of what has long been Unicode: the tables of llama.cpp (15.1) and of this Python differ in what is new.
    rng = random.Random(2)
    old = unicodedata.ucd_3_2_0.category
    known = [c for c in map(chr, range(0x110000)) if old(c) not in ("Cn", "Cs", "Co")]
    for _ in range(100):
        text = "".join(rng.choices(known, k=400))
        assert tokenizer.encode(text) == peer.tokenize(text)


@settings(max_examples=200)
@given(st.text(max_size=200))
def test_words_are_the_text(text):
    assert "".join(words(text)) == text


def test_words_take_time_in_proportion_to_the_text():
    # What makes a backtracking splitter quadratic is a run that fails at its end.
    for run in (" " * 200_000 + "x", "'" * 200_000, "\n" * 200_000 + "'s", " '" * 100_000):
        assert "".join(words(run)) == run


def test_a_long_word_is_merged_like_a_short_one(tokenizer, peer):
    rng = random.Random(3)
    text = "".join(rng.choices("abcdefgh", k=20_000))
    assert tokenizer.encode(text) == peer.tokenize(text)


@pytest.mark.parametrize("name", [name for name in CORPUS if name not in ("controls", "rare planes")])
def test_decoding_gives_the_text_back(tokenizer, name):
    assert tokenizer.decode(tokenizer.encode(CORPUS[name])).decode() == CORPUS[name]


def test_21_bytes_have_no_token_and_are_left_out(tokenizer, peer):
    spelled = {tokenizer.piece(i) for i in range(tokenizer.size)}
    missing = bytes(byte for byte in range(256) if bytes([byte]) not in spelled)
    assert missing.hex(" ") == "04 06 13 14 16 1d c0 c1 f1 f2 f5 f6 f7 f8 f9 fa fb fc fd fe ff"
    assert tokenizer.encode("a\x04b") == peer.tokenize("a\x04b")
    assert tokenizer.decode(tokenizer.encode("a\x04b\U00040000")) == b"ab\x80\x80\x80"


def test_lone_surrogates_are_replacement_characters(tokenizer):
    assert tokenizer.encode("a\ud83db\ude00") == tokenizer.encode("a\ufffdb\ufffd")


def test_what_a_token_is(tokenizer):
    assert tokenizer.size == 49_152
    assert tokenizer.end_ids == {0, 2}
    assert [tokenizer.display(i) for i in (0, 1, 2)] == ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    assert tokenizer.piece(tokenizer.encode(" the")[0]) == b" the"
    assert tokenizer.display(tokenizer.encode("\n")[0]) == "\n"


def test_parts_of_a_character_are_shown_as_bytes(tokenizer):
    ids = tokenizer.encode("🫠")
    assert len(ids) > 1
    shown = [tokenizer.display(i) for i in ids]
    assert all(re.fullmatch(r"bytes:(\\x[0-9a-f]{2})+", text) for text in shown)
    assert b"".join(map(tokenizer.piece, ids)).decode() == "🫠"


def test_no_two_tokens_are_shown_alike(tokenizer):
    assert len({tokenizer.display(i) for i in range(tokenizer.size)}) == tokenizer.size


def test_another_tokenizer_is_refused_in_one_line(metadata):
    with pytest.raises(WeightsError, match=r"tokenizer is llama/default, and only gpt2/smollm"):
        Tokenizer(metadata | {"tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default"})
