import { hostname } from 'node:os'
import { loadConfig, parseConfig } from '../../config/config.ts'
import { judgeHost } from '../../core/doctor/judge-host.ts'
import { errorChain } from '../../log/error-chain.ts'
import { doctorHelp } from '../help/host-help.ts'
import { operatorCommand } from '../operator-command.ts'
import { readFacts } from './read-facts.ts'
import type { Config } from '../../config/config.ts'
import type { Fact } from '../../core/doctor/host-facts.ts'
import type { Finding } from '../../core/doctor/finding.ts'

/** Runs `vmhostd doctor`. */
export const doctorCommand = operatorCommand({
  help: doctorHelp,
  options: { json: { type: 'boolean', default: false } },
  run: async ({ config: configPath, json }) => {
    const [config, configuration] = configOf(configPath, hostname())
    const findings = judgeHost(await readFacts({ configPath, config, configuration }))
    console.log(json ? JSON.stringify({ findings }, undefined, 2) : findingsInWords(findings))
    return findings.some(({ level }) => level === 'must') ? 1 : 0
  },
})

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
