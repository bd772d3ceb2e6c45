/** A chart of the figures as SVG: a bar for each, on a logarithmic scale, as a multiple of what its reference costs. */
import { aimOf, boundOf, costOf, isRate, meetsAim } from './aims.ts'
import type { Measurement } from '../../bench/measurement.ts'

const ROW = 18
const BAR = 11
const TOP = 66
const NAMES_WIDTH = 290
const SCALE_WIDTH = 480
const VALUES_WIDTH = 70
const WIDTH = NAMES_WIDTH + SCALE_WIDTH + VALUES_WIDTH
/** The ends of the scale; bars beyond are cut. */
const [LEAST, MOST] = [0.1, 10]
const TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10]

const COLOURS = { met: '#2e7d32', missed: '#c62828', none: '#607d8b' } as const

/** Returns the chart. A figure without a ratio is left out. */
export function chart(figures: readonly Measurement[]): string {
  const rows = figures.flatMap((figure) => {
    const cost = costOf(figure)
    return cost === undefined ? [] : [{ figure, cost }]
  })
  const height = TOP + rows.length * ROW + 12
  const bottom = height - 8
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" font-family="system-ui, sans-serif" font-size="11">`,
    '<title>Each figure as a multiple of what its reference costs</title>',
    `<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>`,
    text(
      10,
      18,
      'What ours costs, as a multiple of its reference: left of 1 is better',
      'font-size="13" font-weight="bold"',
    ),
    ...legend(),
    ...TICKS.flatMap((tick) => [
      `<line x1="${x(tick)}" y1="${TOP - 8}" x2="${x(tick)}" y2="${bottom}" stroke="${tick === 1 ? '#212121' : '#e0e0e0'}"/>`,
      text(x(tick), TOP - 12, String(tick), 'text-anchor="middle" fill="#616161"'),
    ]),
    ...rows.flatMap(({ figure, cost }, index) => bar(figure, cost, TOP + index * ROW)),
    '</svg>',
  ].join('\n')}\n`
}

function legend(): string[] {
  const entries: readonly (readonly [string, string])[] = [
    [COLOURS.met, 'meets its aim'],
    [COLOURS.missed, 'does not'],
    [COLOURS.none, 'has no aim'],
  ]
  const boxes = entries.flatMap(([colour, words], index) => [
    `<rect x="${10 + index * 110}" y="27" width="${BAR}" height="${BAR}" fill="${colour}"/>`,
    text(26 + index * 110, 37, words, 'fill="#616161"'),
  ])
  return [
    ...boxes,
    `<line x1="342" y1="26" x2="342" y2="39" stroke="#f9a825" stroke-width="3"/>`,
    text(350, 37, 'aim', 'fill="#616161"'),
  ]
}

function bar(figure: Measurement, cost: number, top: number): string[] {
  const meets = meetsAim(figure)
  const colour = meets === undefined ? COLOURS.none : meets ? COLOURS.met : COLOURS.missed
  const [from, to] = [Math.min(x(1), x(cost)), Math.max(x(1), x(cost))]
  const middle = top + ROW / 2 + 2
  const aim = aimedCost(figure)
  return [
    text(NAMES_WIDTH - 8, middle, `${figure.bench} / ${figure.metric}`, 'text-anchor="end"'),
    `<rect x="${from}" y="${top + 2}" width="${Math.max(1, to - from)}" height="${BAR}" fill="${colour}"><title>${escaped(`${figure.ours} ${figure.unit} beside ${figure.reference} ${figure.unit}: ${figure.reference_name}`)}</title></rect>`,
    ...(aim === undefined
      ? []
      : [
          `<line x1="${x(aim)}" y1="${top}" x2="${x(aim)}" y2="${top + BAR + 4}" stroke="#f9a825" stroke-width="3"/>`,
        ]),
    text(NAMES_WIDTH + SCALE_WIDTH + 8, middle, cost.toPrecision(3), 'fill="#212121"'),
  ]
}

/** Returns the aim on the scale of the chart. */
function aimedCost(figure: Measurement): number | undefined {
  const aim = aimOf(figure)
  if (aim === undefined) return undefined
  const ratio = boundOf(aim, figure) / figure.reference
  return isRate(figure) ? 1 / ratio : ratio
}

function x(cost: number): number {
  const bounded = Math.min(MOST, Math.max(LEAST, cost))
  const share = Math.log(bounded / LEAST) / Math.log(MOST / LEAST)
  return Math.round(NAMES_WIDTH + share * SCALE_WIDTH)
}

const text = (left: number, baseline: number, words: string, attributes: string): string =>
  `<text x="${left}" y="${baseline}" ${attributes}>${escaped(words)}</text>`

const escaped = (words: string): string =>
  words.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
