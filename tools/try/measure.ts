/* `./dev try --measure`: what `./dev try` costs after a change of one file. */
import path from 'node:path'
import { readSources } from '../import-graph.ts'
import { checkout } from '../paths.ts'
import { run } from '../process.ts'
import { planFor, readProject } from './choose.ts'

const TIMED_FILES = 10
/** A step through the list that has no factor in common with most lengths: it spreads the files that are timed. */
const STRIDE = 0.618

type Spread = { readonly name: string; readonly values: readonly number[]; readonly unit?: string }

function spread({ name, values, unit = '' }: Spread): string {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (share: number): string => {
    const value = sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0
    return `${value.toFixed(unit === '' ? 0 : 1)}${unit}`
  }
  return `  ${name.padEnd(44)} median ${at(0.5)}, p90 ${at(0.9)}, most ${at(1)}`
}

/** Returns files spread over the whole list, the same ones in every run. */
const someOf = (files: readonly string[]): string[] =>
  Array.from(
    { length: TIMED_FILES },
    (_, index) => files[Math.floor(((index * STRIDE) % 1) * files.length)] ?? '',
  )

/** Prints the expected cost for each source file, and the time of ten real runs. Returns the exit status. */
export async function measure(): Promise<number> {
  const project = readProject()
  const files = readSources('src')
    .map((source) => source.path)
    .filter((file) => !file.endsWith('.test.ts'))
  const plans = files.map((file) => planFor([file], project))
  console.log(`a change of one of ${files.length} source files:`)
  console.log(
    spread({
      name: 'test files that run',
      values: plans.map((plan) => plan.together.length + plan.alone.length),
    }),
  )
  console.log(
    spread({ name: 'their expected time', values: plans.map((plan) => plan.costMs / 1000), unit: ' s' }),
  )
  console.log(
    spread({ name: 'test files left for ./dev test', values: plans.map((plan) => plan.left.length) }),
  )
  console.log(`${TIMED_FILES} runs of ./dev try:`)
  const seconds: number[] = []
  for (const file of someOf(files)) {
    const startedAt = performance.now()
    const { code } = await run([process.execPath, path.join(checkout, 'tools/dev.ts'), 'try', file])
    seconds.push((performance.now() - startedAt) / 1000)
    console.log(`  ${seconds.at(-1)?.toFixed(1).padStart(5)} s  ${file}${code === 0 ? '' : '  (failed)'}`)
  }
  console.log(spread({ name: 'time', values: seconds, unit: ' s' }))
  return 0
}
