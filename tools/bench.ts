/* `./dev bench`: runs benchmarks in a lab of their own, and shows each figure beside its reference. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { labDown, labExec, labUp, LAB_NODE } from '../lab/lab.ts'
import { buildDeb } from './deb.ts'
import { step } from './step.ts'
import type { LabState } from '../lab/lab.ts'
import type { Measurement } from '../bench/measurement.ts'

const LAB = 'bench'
const BENCH_BOUND_MS = 15 * 60_000

/** A benchmark is a file of bench/ that says in its first line what it measures. */
const NAMES = ['boot', 'action', 'accept', 'executable'] as const

const HELP = `./dev bench [NAME…] [--json FILE]

Measures in a lab of its own: ${NAMES.join(', ')}; all of them without a name. Ours and the reference are measured in
the same run, in turn. Figures are medians unless the metric says otherwise; this machine's noise is in both.
`

/** Returns the exit status. */
export async function main(args: readonly string[]): Promise<number> {
  const options = { json: { type: 'string' }, help: { type: 'boolean', short: 'h' } } as const
  const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
  const unknown = positionals.find((name) => !NAMES.some((known) => known === name))
  if (values.help === true || unknown !== undefined) {
    if (unknown !== undefined) console.error(`there is no benchmark ${unknown}\n`)
    process.stdout.write(HELP)
    return values.help === true ? 0 : 2
  }
  await buildDeb()
  await labDown(LAB)
  const lab = await labUp(LAB)
  try {
    await step('install the daemon', () => inLab(lab, 'lab/inside/install.ts'))
    const rows: Measurement[] = []
    for (const name of positionals.length > 0 ? positionals : NAMES) {
      const text = await step(`bench ${name}`, () => inLab(lab, `bench/${name}.ts`))
      rows.push(...(JSON.parse(text) as Measurement[]))
    }
    console.log(renderTable(rows))
    if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(rows, undefined, 2)}\n`)
    return 0
  } finally {
    await labDown(lab)
  }
}

/** Runs a script of the checkout inside the lab and returns what it prints. */
async function inLab(lab: LabState, script: string): Promise<string> {
  const { code, stdout, stderr } = await labExec(lab, [LAB_NODE, path.join('/src', script)], {
    timeoutMs: BENCH_BOUND_MS,
  })
  if (code !== 0) throw new Error(`${script} ended with status ${code}\n${stderr}`)
  return stdout
}

function renderTable(rows: readonly Measurement[]): string {
  const head = ['bench / metric', 'ours', 'reference', 'ratio', 'runs', 'measured against']
  const cells = rows.map((row) => [
    `${row.bench} / ${row.metric}`,
    `${row.ours} ${row.unit}`,
    `${row.reference} ${row.unit}`,
    row.ratio.toFixed(2),
    String(row.runs),
    row.reference_name,
  ])
  const table = [head, ...cells]
  const widths = head.map((_, column) => Math.max(...table.map((line) => line[column]?.length ?? 0)))
  return table
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
