import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { checkout } from '../paths.ts'
import { recordedFigures } from './record.ts'

const { figures } = recordedFigures()

/** A row that quotes figures: `bench` / `metric`, further metrics of it, then ours, then the reference. */
const QUOTE = /^\|[^|]*`(?<bench>[a-z]+)` \/ (?<metrics>`[^|]*`) \| (?<ours>[^|]+) \| (?<reference>[^|]*) \|$/

const numbersIn = (cell: string): number[] =>
  [...cell.replaceAll(/(?<=\d),(?=\d{3})/g, '').matchAll(/\d+(?:\.\d+)?/g)].map(([number]) => Number(number))

/** Returns whether a document rounds a figure to this number. */
const isRounded = (shown: number | undefined, figure: number): boolean =>
  shown !== undefined && Math.abs(shown - figure) <= Math.max(0.01 * Math.abs(figure), 0.05)

test('documents quote the figures on record', () => {
  const paths = ['README.md', ...readdirSync(join(checkout, 'docs')).map((name) => join('docs', name))]
  let quoted = 0
  for (const path of paths.filter((name) => name.endsWith('.md'))) {
    for (const row of readFileSync(join(checkout, path), 'utf8').split('\n')) {
      const { bench, metrics = '', ours = '', reference = '' } = QUOTE.exec(row)?.groups ?? {}
      for (const [index, [, metric]] of [...metrics.matchAll(/`(\w+)`/g)].entries()) {
        const found = figures.filter((figure) => figure.bench === bench && figure.metric === metric)
        const [shown, shownReference] = [numbersIn(ours)[index], numbersIn(reference)[index]]
        const isOnRecord = found.some(
          (figure) =>
            isRounded(shown, figure.ours) &&
            (reference === '' || isRounded(shownReference, figure.reference)),
        )
        const onRecord = found.map((figure) => `${figure.ours} beside ${figure.reference}`).join(', or ')
        assert.ok(isOnRecord, `${path} quotes ${metric} of ${bench} wrongly; it is ${onRecord}: ${row}`)
        quoted += 1
      }
    }
  }
  assert.ok(quoted > 20, `only ${quoted} quoted figures were found`)
})
