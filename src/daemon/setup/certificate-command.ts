import { parseArgs } from 'node:util'
import { CONFIG_PATH, loadConfig } from '../../config/config.ts'
import { limits } from '../../config/limits.ts'
import { errorChain } from '../../log/error-chain.ts'
import { renderHelp } from '../help/command-help.ts'
import { issueHelp, renewHelp } from '../help/host-help.ts'
import { UsageError } from '../usage-error.ts'
import { issueForClient, nextForClient } from './issue.ts'
import { renewCertificates } from './renew.ts'
import { checkName } from './setup-options.ts'
import { SetupReport } from './setup-report.ts'

const HELP = { renew: renderHelp(renewHelp), issue: renderHelp(issueHelp) } as const
const BOTH = `${HELP.renew}\n\n${HELP.issue}`

const OPTIONS = {
  config: { type: 'string', default: CONFIG_PATH },
  all: { type: 'boolean' },
  san: { type: 'string', multiple: true },
  directory: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const

/** Options that one of the two does not take. */
const NOT_TAKEN = { renew: ['directory'], issue: ['all', 'san'] } as const

type Values = ReturnType<typeof parse>['values']

/** Runs `vmhostd certificate renew` and `vmhostd certificate issue`. */
export async function certificateCommand(args: readonly string[]): Promise<number> {
  const { values, positionals } = parse(args)
  const [action = '', ...operands] = positionals
  const isAction = action === 'renew' || action === 'issue'
  if (values.help === true) {
    console.log(isAction ? HELP[action] : BOTH)
    return 0
  }
  if (!isAction || operands.length !== (action === 'issue' ? 1 : 0)) {
    console.error(isAction ? HELP[action] : BOTH)
    return 2
  }
  for (const name of NOT_TAKEN[action])
    if (values[name] !== undefined) throw new UsageError(`${action} does not take --${name}`)
  try {
    return action === 'issue' ? await issue(operands.join(''), values) : await renew(values)
  } catch (error) {
    if (error instanceof UsageError) throw error
    console.error(`vmhostd certificate ${action}: ${errorChain(error)}`)
    return 1
  }
}

const parse = (args: readonly string[]) =>
  parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true })

async function renew({ config: configPath, all = false, san = [] }: Values): Promise<number> {
  const names = san.map(checkName)
  const report = new SetupReport()
  try {
    const config = loadConfig(configPath)
    const renewed = await renewCertificates({ config, all, names, nowMs: Date.now(), report })
    console.log(report.text)
    if (renewed.length > 0) console.log(NEXT)
    return report.complete ? 0 : 1
  } catch (error) {
    if (report.text !== '') console.log(report.text)
    throw error
  }
}

async function issue(commonName: string, { config: configPath, directory = '.' }: Values): Promise<number> {
  const config = loadConfig(configPath)
  const paths = await issueForClient({ config, commonName, directory, nowMs: Date.now() })
  const report = new SetupReport()
  report.made(paths.certificate, `certificate of ${commonName}, for a client`)
  report.made(paths.key, 'its key, which only this user can read')
  console.log(`${report.text}\n\n${nextForClient({ config, commonName }, paths, configPath)}`)
  return 0
}

const NEXT = `
The daemon uses its own new certificates within ${limits.certificateRecheckMs / 1000} s. Give new certificates and keys of clients to those who use them: the
old ones are valid until they end. Then take the key of the authority off this host again.`
