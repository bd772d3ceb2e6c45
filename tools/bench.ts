/* `./dev bench`: runs benchmarks in a lab of their own, and shows each figure beside its reference. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { findFirecracker } from '../lab/firecracker.ts'
import { besideLabs, guardLab, labDown, labExec, labUp, LAB_NODE } from '../lab/lab.ts'
import { joinLabs } from '../lab/wires.ts'
import { buildDeb } from './deb.ts'
import { checkout } from './paths.ts'
import { inOwnLab } from './own-lab.ts'
import { runChecked } from './process.ts'
import { StepFailed, step } from './step.ts'
import { recordFigures } from './figures/record.ts'
import type { StepLog } from './step.ts'
import type { LabState } from '../lab/lab.ts'
import type { Measurement } from '../bench/measurement.ts'

const LAB = 'bench'
const MINUTE_MS = 60_000
const BENCH_BOUND_MS = 15 * MINUTE_MS
/** Minutes that soak works unless asked otherwise. */
const SOAK_MINUTES = 60

/** Names of benchmarks: each is a file of bench/ whose first line says what it measures. */
const NAMES = [
  'boot',
  'action',
  'accept',
  'api',
  'console',
  'wake',
  'save',
  'snapshot',
  'image',
  'watch',
  'hostile',
  'executable',
  'firecracker',
  'peers',
  'migrate',
  'shutdown',
  'density',
  'load',
  'soak',
  // Last: its lab ends with 10,000 network devices, and no other lab boots while the kernel removes them.
  'sleepers',
] as const
type Name = (typeof NAMES)[number]

/**
 * Packages of a benchmark's reference, for benchmarks with a lab of their own: what they need or leave there does not
 * disturb the others.
 */
const PACKAGES: Partial<Record<Name, readonly string[]>> = {
  peers: ['libvirt-daemon-system'],
  migrate: ['libvirt-daemon-system', 'libvirt-clients'],
  // They leave the host with a stand-in for its monitor.
  load: [],
  soak: [],
  // Its VMs are not removed one by one.
  sleepers: [],
}

/**
 * Time that benchmarks need beyond that of the others: guests idle before each sleep, a thousand VMs are created three
 * times, and 10,000 VMs are made in minutes.
 */
const MORE_MS: Partial<Record<Name, number>> = {
  wake: 10 * MINUTE_MS,
  load: 5 * MINUTE_MS,
  sleepers: 30 * MINUTE_MS,
}

/** Benchmarks that run on this machine, beside as many labs, and install the daemons by themselves. */
const BESIDE: Partial<Record<Name, 1 | 2>> = { migrate: 2, shutdown: 1 }

const HELP = `./dev bench [NAME…] [--minutes N] [--json FILE] [--figures]

Measures in a lab of its own: ${NAMES.join(', ')}; all of them without a name. Ours and the reference are measured in
the same run, in turn. Figures are medians unless the metric says otherwise; this machine's noise is in both.

  --minutes N   how long soak works; an hour unless given, and a slope over less says less
  --json FILE   the same rows for programs, written after each benchmark
  --figures     put the rows on record: docs/figures.json, and from it docs/figures.md and its chart

A benchmark that fails is named, and the others go on; the exit status is then 1.
`

/** Returns the exit status. */
export async function main(args: readonly string[]): Promise<number> {
  const options = {
    minutes: { type: 'string', default: String(SOAK_MINUTES) },
    json: { type: 'string' },
    figures: { type: 'boolean' },
    help: { type: 'boolean', short: 'h' },
  } as const
  const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
  const unknown = positionals.find((name) => !NAMES.some((known) => known === name))
  if (values.help === true || unknown !== undefined) {
    if (unknown !== undefined) console.error(`there is no benchmark ${unknown}\n`)
    process.stdout.write(HELP)
    return values.help === true ? 0 : 2
  }
  const minutes = Number(values.minutes)
  if (!(minutes > 0)) throw new Error(`--minutes ${values.minutes} is not a time`)
  const asked = NAMES.filter((name) => positionals.length === 0 || positionals.includes(name))
  const names = asked.filter((name) => canRun(name))
  await buildDeb()
  const together = names.filter((name) => PACKAGES[name] === undefined && BESIDE[name] === undefined)
  const results = new Results(values.json)
  await results.attempt(together, () => measure(LAB, together, { results, minutes }))
  for (const name of names) {
    const packages = PACKAGES[name]
    const labName = `${LAB}-${name}`
    if (BESIDE[name] !== undefined) await results.keep(name, () => measureBeside(labName, name))
    else if (packages !== undefined)
      await results.attempt([name], () => measure(labName, [name], { results, packages, minutes }))
  }
  const { rows, failed } = results
  console.log(renderTable(rows) + renderNotes(rows))
  if (values.figures === true) await recordFigures(rows)
  for (const name of failed) console.error(`bench ${name} failed`)
  return failed.length === 0 ? 0 : 1
}

/** The rows of a run so far. */
class Results {
  readonly rows: Measurement[] = []
  readonly failed: Name[] = []
  readonly #file: string | undefined

  constructor(file: string | undefined) {
    this.#file = file
  }

  /** Keeps the rows that a benchmark prints. Its failure does not end the run, which may have gone on for an hour. */
  async keep(name: Name, run: () => Promise<string>): Promise<void> {
    await this.attempt([name], async () => {
      this.rows.push(...(JSON.parse(await run()) as Measurement[]))
    })
    if (this.#file !== undefined) writeFileSync(this.#file, `${JSON.stringify(this.rows, undefined, 2)}\n`)
  }

  /** Runs benchmarks in their lab. If that throws, they have failed: the lab may not boot, or not end. */
  async attempt(names: readonly Name[], run: () => Promise<void>): Promise<void> {
    try {
      await run()
    } catch (error) {
      this.failed.push(...names.filter((name) => !this.failed.includes(name)))
      if (!(error instanceof StepFailed)) console.error(error)
    }
  }
}

/** Returns whether this machine has what a benchmark needs; says so if not. */
function canRun(name: Name): boolean {
  if (name !== 'firecracker' || findFirecracker() !== undefined) return true
  console.error(
    'bench firecracker is skipped: this machine has no Firecracker (see VMHOSTD_FIRECRACKER in CONTRIBUTING.md)',
  )
  return false
}

/** Runs benchmarks in a separate lab, with further packages if they need them. */
async function measure(
  labName: string,
  names: readonly Name[],
  {
    results,
    packages = [],
    minutes,
  }: { readonly results: Results; readonly packages?: readonly string[]; readonly minutes: number },
): Promise<void> {
  if (names.length === 0) return
  await labDown(labName)
  await inOwnLab(
    labName,
    async (lab) => {
      await step('install the daemon', () => inLab(lab, ['lab/inside/install.ts']))
      for (const name of names) {
        const isSoak = name === 'soak'
        const script = [`bench/${name}.ts`, ...(isSoak ? [String(minutes)] : [])]
        const timeoutMs = BENCH_BOUND_MS + (MORE_MS[name] ?? 0) + (isSoak ? minutes * MINUTE_MS : 0)
        await results.keep(name, () => step(`bench ${name}`, (log) => inLab(lab, script, { timeoutMs, log })))
      }
    },
    { packages },
  )
}

/** Runs a benchmark beside its labs. */
async function measureBeside(labName: string, name: Name): Promise<string> {
  const names = Array.from({ length: BESIDE[name] ?? 1 }, (_, index) => `${labName}-${index + 1}`)
  const packages = PACKAGES[name] ?? []
  const endGuards = names.map(guardLab)
  try {
    for (const one of names) await labDown(one)
    const labs: LabState[] = []
    for (const one of names) labs.push(await labUp(one, { packages }))
    const [first, second] = labs
    if (first !== undefined && second !== undefined) await joinLabs(first, second)
    const script = path.join(checkout, 'bench', `${name}.ts`)
    const { argv, env } = besideLabs(labs, [process.execPath, '--no-warnings', script])
    return await step(`bench ${name}`, async (log) => {
      const onOutput = (chunk: Buffer) => noteProgress(chunk.toString(), log)
      return runChecked(argv, { cwd: checkout, env, timeoutMs: BENCH_BOUND_MS, onOutput })
    })
  } finally {
    for (const one of names) await labDown(one)
    for (const end of endGuards) end()
  }
}

/**
 * Runs a script of the checkout, with its arguments, inside the lab and returns its output; `log` shows its progress.
 */
async function inLab(
  lab: LabState,
  [script = '', ...args]: readonly string[],
  { timeoutMs = BENCH_BOUND_MS, log }: { readonly timeoutMs?: number; readonly log?: StepLog } = {},
): Promise<string> {
  const { code, stdout, stderr } = await labExec(lab, [LAB_NODE, path.join('/src', script), ...args], {
    timeoutMs,
    onOutput: (chunk) => noteProgress(chunk.toString(), log),
  })
  if (code !== 0) {
    if (log !== undefined) await keepJournal(lab, log)
    throw new Error(`${script} ended with status ${code}\n${stderr}`)
  }
  return stdout
}

/** Keeps the journal of a lab beside a step's log, because the lab ends with the failure. */
async function keepJournal(lab: LabState, log: StepLog): Promise<void> {
  const file = log.file.replace(/\.log$/, '-journal.log')
  const { stdout } = await labExec(lab, ['journalctl', '--no-pager', '--output=short-iso-precise'])
  writeFileSync(file, stdout)
  log.write(`the journal of the lab: ${file}\n`)
}

/** Shows the last line of `progress` in a piece of output. */
function noteProgress(text: string, log?: StepLog): void {
  log?.write(text)
  const line = text.split('\n').findLast((one) => one.startsWith('    '))
  if (line !== undefined) log?.note(line.trim())
}

function renderTable(rows: readonly Measurement[]): string {
  const head = ['bench / metric', 'ours', 'limit', 'reference', 'ratio', 'runs', 'measured against']
  const cells = rows.map((row) => [
    `${row.bench} / ${row.metric}`,
    `${row.ours} ${row.unit}`,
    row.limit === undefined ? '' : `${row.limit} ${row.unit}`,
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

/** Renders each note once, below the name of its figure. */
function renderNotes(rows: readonly Measurement[]): string {
  const notes = new Map<string, Set<string>>()
  for (const { bench, metric, notes: lines = [] } of rows) {
    const name = `${bench} / ${metric}`
    if (lines.length > 0) notes.set(name, new Set([...(notes.get(name) ?? []), ...lines]))
  }
  return [...notes].map(([name, lines]) => `\n\n${[name, ...lines].join('\n    ')}`).join('')
}
