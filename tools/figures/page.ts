/** docs/figures.md, from the figures on record. */
import { aimOf, isRate, meetsAim } from './aims.ts'
import type { Aim } from './aims.ts'
import type { Figure, FiguresRecord } from './figure.ts'

/** Returns the page. */
export function figuresPage({ machine, figures }: FiguresRecord): string {
  const benches = [...new Set(figures.map(({ bench }) => bench))]
  const { cores, memory_gib, processor } = machine
  return [
    '# Figures',
    '',
    ...summaryOf(figures),
    '',
    `To measure all of this on your machine: \`./dev bench\`. To measure one part: \`./dev bench ${benches[0] ?? ''}\`.`,
    'Each figure stands beside a reference that was measured in turn in the same run. The ratio is what counts: the',
    'absolute figures are those of one slow, shared machine. A dash stands where there is no ratio, or no aim.',
    '',
    `The newest run was on ${cores} cores (${processor}) with ${memory_gib} GiB, where KVM emulates, so the guests are emulated too.`,
    '`./dev bench NAME --figures` measures again, and writes this page, its chart and `figures.json`.',
    '',
    '![Each figure as a multiple of what its reference costs](figures.svg)',
    ...benches.flatMap((bench) =>
      section(
        bench,
        figures.filter((one) => one.bench === bench),
      ),
    ),
    '',
  ].join('\n')
}

/** Says how many aims are met, and which are not. */
function summaryOf(figures: readonly Figure[]): string[] {
  const judged = figures.filter((figure) => meetsAim(figure) !== undefined)
  const missed = judged.flatMap((figure) => {
    const { bench, metric, unit, ours, reference, ratio } = figure
    const aim = aimOf(figure)
    if (aim === undefined || meetsAim(figure) === true) return []
    const measured = `${ours} ${unit} beside ${reference} ${unit}, ratio ${ratioWords(ratio)}`
    return [`- \`${bench}\` / \`${metric}\`: ${measured}; the aim is ${boundWords(aim, figure)}`]
  })
  const met = `${judged.length - missed.length} of ${judged.length} aims are met.`
  return missed.length === 0 ? [met] : [`${met} These are not:`, '', ...missed]
}

function section(bench: string, figures: readonly Figure[]): string[] {
  const [first] = figures
  return [
    '',
    `## ${bench}`,
    '',
    `\`./dev bench ${bench}\`, measured on ${first?.measured_on} at \`${first?.commit}\`.`,
    '',
    '| metric | ours | reference | ratio | aim | runs | measured against |',
    '|---|---|---|---|---|---|---|',
    ...figures.map(row),
    ...notesOf(figures),
  ]
}

const row = (figure: Figure): string => {
  const { metric, unit, ours, reference, ratio, runs, reference_name } = figure
  const cells = [
    `\`${metric}\``,
    `${ours} ${unit}`,
    `${reference} ${unit}`,
    ratioWords(ratio),
    aimWords(figure),
  ]
  return `| ${[...cells, runs, reference_name.replaceAll('|', '\\|')].join(' | ')} |`
}

/**
 * The ratio to nothing is not a number: JSON has no word for it, and records `null`. A difference below 0 has none
 * either.
 */
const ratioWords = (ratio: number | null): string =>
  ratio === null || !Number.isFinite(ratio) || ratio < 0 ? '-' : ratio.toFixed(2)

function aimWords(figure: Figure): string {
  const aim = aimOf(figure)
  if (aim === undefined) return '-'
  return `${boundWords(aim, figure)}, ${meetsAim(figure) === true ? 'met' : '**not met**'}`
}

function boundWords(aim: Aim, figure: Figure): string {
  const than = isRate(figure) ? '≥' : '≤'
  if ('ratio' in aim) return `ratio ${than} ${aim.ratio}`
  return 'more' in aim ? `${than} ${aim.more} ${figure.unit} more` : `${than} ${aim.ours} ${figure.unit}`
}

function notesOf(figures: readonly Figure[]): string[] {
  const lines = figures.flatMap(({ metric, notes = [] }) => notes.map((note) => `- \`${metric}\`: ${note}`))
  return lines.length === 0 ? [] : ['', ...new Set(lines)]
}
