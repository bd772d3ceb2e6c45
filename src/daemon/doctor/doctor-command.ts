import { hostname } from 'node:os'
import { parseArgs } from 'node:util'
import { CONFIG_PATH, loadConfig, parseConfig } from '../../config/config.ts'
import { judgeHost } from '../../core/doctor/judge-host.ts'
import { errorChain } from '../../log/error-chain.ts'
import { renderHelp } from '../help/command-help.ts'
import { doctorHelp } from '../help/host-help.ts'
import { readFacts } from './read-facts.ts'
import type { Config } from '../../config/config.ts'
import type { Fact } from '../../core/doctor/host-facts.ts'
import type { Finding } from '../../core/doctor/finding.ts'

const HELP = renderHelp(doctorHelp)

/** Runs `vmhostd doctor`; returns the exit status. */
export async function doctorCommand(args: readonly string[]): Promise<number> {
  const options = {
    config: { type: 'string', default: CONFIG_PATH },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h' },
  } as const
  const { values } = parseArgs({ args: [...args], options })
  if (values.help === true) {
    console.log(HELP)
    return 0
  }
  try {
    const [config, configuration] = configOf(values.config, hostname())
    const findings = judgeHost(await readFacts({ configPath: values.config, config, configuration }))
    console.log(values.json ? JSON.stringify({ findings }, undefined, 2) : findingsInWords(findings))
    return findings.some(({ level }) => level === 'must') ? 1 : 0
  } catch (error) {
    console.error(`vmhostd doctor: ${errorChain(error)}`)
    return 1
  }
}

/** Returns the configuration, or the defaults if it cannot be used, and whether it can. `machine` is its host name. */
export function configOf(path: string, machine: string): readonly [Config, Fact<'used'>] {
  try {
    return [loadConfig(path, machine), { known: true, value: 'used' }]
  } catch (error) {
    // The name of this machine may be what cannot be used.
    const defaults = parseConfig('', { path, hostname: 'localhost' })
    return [defaults, { known: false, because: errorChain(error) }]
  }
}

const WORDS: Readonly<Record<Finding['level'], string>> = { ok: 'ok', should: 'should', must: 'MUST' }

/** Renders findings as a table, each remedy below its finding. */
export function findingsInWords(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length))
  const lines = findings.flatMap(({ check, level, found, remedy }) => [
    `${WORDS[level].padEnd(8)}${check.padEnd(width)}  ${found}`,
    ...(remedy === undefined ? [] : [`${' '.repeat(8 + width)}  → ${remedy}`]),
  ])
  const count = (wanted: Finding['level']): number => findings.filter(({ level }) => level === wanted).length
  const [must, should] = [count('must'), count('should')]
  const sum =
    must + should === 0 ? 'Nothing needs to be done.' : `${must} must be done, ${should} should be done.`
  return [...lines, '', sum].join('\n')
}
