import { parseArgs } from 'node:util'
import { CONFIG_PATH, loadConfig } from '../../config/config.ts'
import { limits } from '../../config/limits.ts'
import { errorChain } from '../../log/error-chain.ts'
import { renewCertificates } from './renew.ts'
import { SetupReport } from './setup-report.ts'

const HELP = `Usage: vmhostd certificate renew [--all] [--config FILE]

Replaces the certificates of this host that end within ${limits.certificateWarningDays} days, with a new key and the same names: those of the
server, the controller, the node and the reader of metrics. The key of the authority must be beside its certificate, where
"vmhostd setup" made it; bring it back for this if you keep it elsewhere. --all renews those that end later too.
A certificate of another authority stays, and the report says what to do. The daemon uses new files within
${limits.certificateRecheckMs / 1000} s, without a restart.

Exit status: 0 if nothing is left to do, 1 if a certificate must be signed elsewhere, 2 for a wrong command line.`

/** Runs `vmhostd certificate renew`. */
export async function certificateCommand(args: readonly string[]): Promise<number> {
  const options = {
    config: { type: 'string', default: CONFIG_PATH },
    all: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h' },
  } as const
  const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
  if (values.help === true) {
    console.log(HELP)
    return 0
  }
  if (positionals.length !== 1 || positionals[0] !== 'renew') {
    console.error(HELP)
    return 2
  }
  const report = new SetupReport()
  try {
    const config = loadConfig(values.config)
    const renewed = await renewCertificates({ config, all: values.all, nowMs: Date.now(), report })
    console.log(report.text)
    if (renewed.length > 0) console.log(NEXT)
    return report.complete ? 0 : 1
  } catch (error) {
    if (report.text !== '') console.log(report.text)
    console.error(`vmhostd certificate renew: ${errorChain(error)}`)
    return 1
  }
}

const NEXT = `
The daemon uses its own new certificates within ${limits.certificateRecheckMs / 1000} s. Give new certificates and keys of clients to those who use them: the
old ones are valid until they end. Then take the key of the authority off this host again.`
