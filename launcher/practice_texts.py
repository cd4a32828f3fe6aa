"""The texts that the practice pair knows by heart, and the words in a prompt that call for each of them."""

from __future__ import annotations

CODE = '''\
Here is quicksort in Python, with a search that uses its result:

```python
def quicksort(items):
    """Return a sorted copy of items."""
    if len(items) <= 1:
        return list(items)
    pivot = items[len(items) // 2]
    smaller = [x for x in items if x < pivot]
    equal = [x for x in items if x == pivot]
    larger = [x for x in items if x > pivot]
    return quicksort(smaller) + equal + quicksort(larger)


def binary_search(ordered, wanted):
    """Return the index of wanted in ordered, or -1 when it is not there."""
    low, high = 0, len(ordered) - 1
    while low <= high:
        middle = (low + high) // 2
        if ordered[middle] == wanted:
            return middle
        if ordered[middle] < wanted:
            low = middle + 1
        else:
            high = middle - 1
    return -1


if __name__ == "__main__":
    numbers = quicksort([5, 3, 9, 1, 7, 3])
    assert numbers == [1, 3, 3, 5, 7, 9]
    print(numbers, "seven stands at", binary_search(numbers, 7))
```

Each call splits the list around a pivot: what is smaller goes to the left, what is larger to the right. \
On average that takes **O(n log n)** comparisons; a bad pivot every time would make it O(n²).
'''

PROSE = """\
The lighthouse on the Île de Brume had been dark for eleven winters when the keeper's granddaughter \
rowed out to it. She brought a lantern, a tin of matches and a letter that nobody had dared to open.

The door gave way at the third push. Inside, the stairs still remembered every step of her childhood and \
groaned in the same places; the wind sang through the same broken pane, a little flat, as it always had. \
Halfway up she stopped beside the logbook. The last line, in her grandmother Zoë's slanted hand, said: \
“Fog. Two ships passed. Someone must stay.”

At the top she found the great lamp wrapped in a sail, as though it had been put to bed. She sat down on \
the cold iron floor, broke the seal and read aloud to the empty room. The letter was short. “Keep one \
light burning,” it said, “so that I may find the way home.”

She laughed, because the writer had drowned long before her mother was born. Then she thought of the \
kitchen where four generations had set an extra plate on stormy nights, and stopped laughing.

So she struck a match. The flame leaned over, stood up again, and took hold of the wick. It was not much: \
a café candle would have done as well. But the old mirrors caught it, turned it round and threw it far \
out over the black water 🌊, beyond the reef, to where the chart shows nothing at all.

And there, after a while, another light answered.
"""

THOUGHTS = """\
The question is how many winters one box of matches lasts. A box holds 240 matches, and the keeper lights \
the lamp once each evening. Winter on the rock runs from the first of November to the last day of March.

Count the evenings: November 30, December 31, January 31, February 28, March 31. That makes 151. In damp \
weather every third match fails, so an evening needs one and a half matches on average: 151 times 1.5 is \
226.5. One box covers a whole winter, with about thirteen left over.

Check the leap year too: a 29th of February adds 1.5, which gives 228. Still below 240. Good."""

THINKING_ANSWER = """\
**One box is enough for one winter.**

There are 151 evenings between November and March. If every third match fails, each evening costs 1.5 \
matches, so the keeper uses about 227 of the 240. Even a leap year leaves a dozen to spare; a second box \
would be needed only for a second winter.
"""

MATHS = r"""## Sum of the first squares

For every natural number $n$ the following identity holds:

$$\sum_{k=1}^{n} k^2 = \frac{n(n+1)(2n+1)}{6}$$

Proof by induction:

1. *Start.* With $n = 1$ both sides are equal to 1.
2. *Step.* Assume it for $n$ and add the next square, $(n+1)^2$. Take out the factor $\frac{n+1}{6}$;
   what remains is $2n^2 + 7n + 6 = (n+2)(2n+3)$.
3. *End.* That is the right-hand side again, with $n+1$ in the place of $n$.

A few values to compare with:

| n | direct sum | by the formula |
|--:|:-----------|---------------:|
| 2 | 1 + 4 | 5 |
| 3 | 1 + 4 + 9 | 14 |
| 10 | 1 + … + 100 | 385 |

- Growth: the sum behaves like $n^3/3$ when $n$ becomes large.
- Geometry: it counts the balls in a pyramid with a square base.
"""

CHAT = """\
Hello! Before we go on, an honest word: I am the **practice pair**, not a language model. I understand \
nothing of what you write; a few words in your message decide which of my prepared texts you get.

What I am good for: everything around me is real. A real engine runs here, and a real drafter proposes \
tokens that the target checks, so speed, acceptance and the Stop button can be tried before gigabytes \
of weights are fetched.

Try one of these:

- “Implement quicksort in Python.”
- “Tell me a story about a lighthouse.”
- “Think step by step: how long does a box of matches last?”
- “Prove the formula for the sum of squares.”
- “Write a long guide.”

For real answers, start me with a model's file as BONSAI_MODEL. Have fun!
"""

REWRITE_INPUT = """\
def total_price(basket, discount=0.0):
    total = 0.0
    for entry in basket:
        amount = entry["amount"]
        price = entry["price"]
        if amount < 0:
            raise ValueError("negative amount")
        total = total + amount * price
    if discount > 0.0:
        total = total - total * discount
    return round(total, 2)


def print_receipt(basket, shop="Corner Shop"):
    print(shop.center(40))
    print("=" * 40)
    for entry in basket:
        name = entry["name"][:24]
        line = entry["amount"] * entry["price"]
        print(f"{name:<28}{line:>12.2f}")
    print("-" * 40)
    print(f"{'Sum':<28}{total_price(basket):>12.2f}")
    print("Thank you, come again!")
"""

REWRITE = """\
def total_price(basket: list[dict], discount: float = 0.0) -> float:
    total = 0.0
    for entry in basket:
        amount = entry["amount"]
        price = entry["price"]
        if amount < 0:
            raise ValueError("negative amount")
        total += amount * price
    if discount > 0.0:
        total -= total * discount
    return round(total, 2)


def print_receipt(basket: list[dict], shop: str = "Corner Shop") -> None:
    print(shop.center(40))
    print("=" * 40)
    for entry in basket:
        name = entry["name"][:24]
        line = entry["amount"] * entry["price"]
        print(f"{name:<28}{line:>12.2f}")
    print("-" * 40)
    print(f"{'Sum':<28}{total_price(basket):>12.2f}")
    print("Thank you, come again!")
"""

LONG = """\
# A field guide to speculative decoding

## 1. Why writing is slower than reading

A language model reads a prompt of a thousand words in the time it needs to write a handful of them. That \
looks odd at first, since the arithmetic is the same in both directions. The difference lies in how the \
work is packed. While reading, all tokens of the prompt are known beforehand, so the engine sends them \
through the network side by side: every weight is loaded from memory once and used hundreds of times. \
While writing, the next token depends on the one before it. The engine must finish a token before it can \
begin another, and for each of them it has to fetch the whole network from memory again.

Picture a library whose reading room is far from the stacks. A reader who hands in a list of fifty titles \
gets them with one trip of the trolley. Another, who asks for a book, reads it, and only then knows which \
volume comes next, keeps the trolley rolling all day. Neither reads faster than the other; the corridor \
decides. On today's machines the corridor is memory bandwidth, and it is the reason why a chat with a big \
model feels slow although the processor sits half idle.

## 2. The idea in one paragraph

Speculative decoding fills that idle time with guesses. A small, quick *drafter* proposes several tokens. \
The large *target* then checks the whole proposal in one pass, exactly as it would read a prompt. Wherever \
the guess equals what the target would have written itself, the token is kept. At the first difference the \
rest of the guess is thrown away and the target's own choice takes its place. One expensive pass therefore \
yields at least one token, and on lucky days five. The text stays the target's: a poor drafter costs time, \
never quality.

## 3. Words worth knowing

- **Target**: the model whose answers you want. It has the last say on every token.
- **Drafter**: the helper that proposes. It may be a smaller relative, a few extra layers on top of the \
target, or no network at all but a table of phrases seen earlier.
- **Draft length**: how many tokens are proposed at once. Long drafts win much when they are right and \
waste much when they are wrong.
- **Verify block**: the batch in which the target checks one draft.
- **Acceptance**: accepted tokens divided by proposed ones. It depends on the subject far more than on \
the hardware.
- **Decode speed**: tokens per second while writing, measured without the time for reading the prompt.

## 4. A worked example

Suppose that the target needs 40 milliseconds for a pass and the drafter 2 milliseconds for a block of \
four. Plain decoding delivers 25 tokens per second. With drafts, a round takes 42 milliseconds, plus a \
little because a batch of five is somewhat dearer than a single token; call it 46. If on average 2.8 of \
the four guesses survive, the round yields 3.8 tokens, which is 83 tokens per second: more than three \
times as fast. If only half a token survives, the round yields 1.5, or 33 per second, and the gain is \
hardly worth mentioning. Now let checking be expensive, as it is on some laptops: should the round take \
120 milliseconds, the good case shrinks to 32 per second and the bad one drops to 12, half of what you \
had without any drafter. All three outcomes occur in practice. Only a measurement tells which is yours.

## 5. What makes acceptance rise or fall

Source code is full of things that can be foreseen. After `for i in range(` few continuations make sense, \
brackets close, names return, indentation repeats. Acceptance between 0.8 and 0.9 is common there. Tables, \
lists of dates, legal boilerplate and translations of formulaic letters behave alike. Stories sit at the \
other end: a good narrator avoids precisely what everybody expects, so half of the guesses or more go to \
waste. Conversation lies in between. Mathematics tends to be closer to code, as long as the steps are \
written out.

Temperature matters as well. When sampling is random, the target now and then picks its second or third \
choice, and a drafter that guessed the first one loses. Near zero the two agree most often. Very long \
contexts may lower acceptance too, because small drafters lose the thread sooner than their elders.

Finally there is training. A drafter distilled from just this target, on text that this target wrote, \
knows its habits. One that was made for an older edition of the weights still works, since every token \
is checked, yet it will be wrong more often. This is why a launcher should take the pair that belongs \
together, and should look into both files before starting them.

## 6. Families of drafters

1. *A smaller sibling.* The oldest kind. Seven billion parameters may be helped by half a billion from \
the same series, provided that both share one vocabulary.
2. *Prediction heads.* Some models are trained with additional outputs that look two, three or four \
places ahead. They cost little memory and know the target from the inside.
3. *Block drafters.* They read intermediate layers of the target and fill a whole block of blanks in one \
go, instead of one blank after another. A short chain on top lets each proposed token see its predecessor, \
which repairs the seams between independent guesses.
4. *Phrase tables.* Nothing is learned: if the last few tokens occurred before, what followed them is \
proposed again. Useless for fresh prose, splendid when you ask for the same file with one line changed.

## 7. How to measure without fooling yourself

Begin with a warm-up run and discard it; caches, clocks and lazily loaded pages make first runs slow. Ask \
the same question of both sides, with equal seed, temperature and limit, and switch off reuse of the prompt \
cache, or the second run will look like magic. Alternate the order, A then B, then B then A, so that a fan \
which starts to blow, or a download in the background, does not favour one of them. Compare medians rather \
than means. State the number of tokens together with the rate, for a very short answer says nothing.

Measure at least two subjects, one predictable and one not. A single figure, such as “twice as fast”, \
hides the only thing that you need to know: whether it holds for *your* kind of work. If a drafter makes \
your machine slower, say so and leave it off. There is no shame in that; graphics chips with wide memory \
and large batches profit most, while a busy pair of cores may have nothing to gain.

## 8. When the texts differ

In theory greedy output is identical with and without a drafter. In reality the target computes a batch \
of five by other routines than a single token; sums are added in another order, and the last digits of \
floating point numbers change. Where two candidates are almost tied, that can tip the scale, and from \
there on both texts go their own ways. Neither is wrong. A careful report therefore says “identical” or \
names the first difference, and promises nothing.

## 9. What it costs

Memory comes first: the drafter's weights and its own cache must fit beside the target. Then come the \
limits of the server. Many engines serve a single conversation at a time while speculating, and some read \
the complete history again at each turn. Energy is a matter of taste: rejected guesses are wasted work, \
but a machine that finishes earlier also sleeps earlier.

## 10. A checklist for the impatient

- [ ] Do target and drafter belong together (hidden size, vocabulary, layers)?
- [ ] Is the draft length at most the block size that the drafter was trained with?
- [ ] Does the engine really draft? If the counters are absent, nothing was proposed.
- [ ] Is acceptance above one half for the kind of text that you write most?
- [ ] Is the decode speed higher than without, in alternating runs, on a quiet machine?

If every box is ticked, leave it on. If the last one is not, the others do not matter.

## 11. Three small experiments

1. Ask for a sorting routine, then for a sonnet, and compare both acceptance figures. The gap between \
them tells more about drafting than any table in this guide.
2. Halve the draft length. If decode speed hardly moves, your machine pays dearly for every extra guess.
3. Raise the temperature to one and repeat the first question. Count how many proposals fall now that the \
target rolls dice, and decide whether you would still call the helper useful.

Note each result with its date. Drivers, engines and weights keep changing, and last month's loser may win \
today.

## 12. An afterword about patience

People judge speed less by averages than by rhythm. A stream that pauses and then throws out four words \
at once can feel hastier than an even one, although both arrive together. Some interfaces smooth this \
over; others colour the words that were guessed, so that you see the drafter at work and learn where it \
shines. Watch it for a few minutes with a piece of code and then with a poem. You will notice how \
confidently it completes what is routine, and how it falls silent, so to speak, whenever something new is \
being said. That contrast is perhaps the most honest portrait of language which a benchmark has ever drawn.

---

*This guide is one of the prepared texts of the practice pair, and long on purpose: scroll, stop it in \
the middle, or let it run to the end while you look at the meters.*
"""

# Kind of text -> the answer, as a client gets it: no blank at either end.
TEXTS = {
    "code": CODE.strip(),
    "prose": PROSE.strip(),
    "thinking": THINKING_ANSWER.strip(),
    "long": LONG.strip(),
    "maths": MATHS.strip(),
    "chat": CHAT.strip(),
    "rewrite": REWRITE.strip(),
}


def _beginnings(words: str) -> tuple[str, ...]:
    return tuple(" " + word.replace("_", " ") for word in words.split())


# Asked in this order; the first kind one of whose words stands in the prompt is taken, else "chat". "think"
# is the beginning of a word, "long_" a whole one, "in_detail" two. English, Italian, German; ASCII only, since
# llama.cpp's templates lower no other letters.
WORDS: tuple[tuple[str, tuple[str, ...]], ...] = tuple(
    (kind, _beginnings(words))
    for kind, words in (
        (
            "thinking",
            "think reason_ reasoning step_by_step puzzle riddle "
            "ragion pensa passo_passo passo_per_passo passo_dopo_passo indovinello "
            "denk_ denke_ nachdenk knobel",
        ),
        ("rewrite", "rewrit rephrase reformat type_hints annotat riscriv riformul formuliere umschreib"),
        (
            "code",
            "python code coding function class_ classes_ program implement algorithm script javascript "
            "typescript java_ rust_ c++_ c#_ sql_ html css_ debug bug_ regex unit_test docstring quicksort "
            "sort_ binary_search api_ codice funzione_ funzioni_ classe_ classi_ algoritm "
            "funktion_ funktionen_ klasse_ klassen_ quelltext",
        ),
        (
            "long",
            "long_ longer_ lengthy essay in_detail detailed guide_ tutorial 2000_words 2_000_ "
            "lungo_ lunga_ lunghissim saggio_ dettagl guida_ aufsatz leitfaden",
        ),
        (
            "maths",
            "math equation solve_ integral derivative theorem prove_ proof_ formula fraction sum_of_ "
            "calculate matemat equazion risolv derivata teorema dimostra frazion somma_ calcola "
            "gleichung ableitung_ beweis summe_ berechne",
        ),
        (
            "prose",
            "story stories tale_ tales_ novel_ poem poetry fairy lighthouse "
            "raccont storia_ storie_ fiaba favola poesia romanzo faro_ "
            "geschichte_ erzaehl gedicht leuchtturm",
        ),
    )
)
