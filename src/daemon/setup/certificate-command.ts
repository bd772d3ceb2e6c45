import { parseArgs } from 'node:util'
import { CONFIG_PATH, loadConfig } from '../../config/config.ts'
import { limits } from '../../config/limits.ts'
import { errorChain } from '../../log/error-chain.ts'
import { renderHelp } from '../help/command-help.ts'
import { certificateHelp } from '../help/host-help.ts'
import { renewCertificates } from './renew.ts'
import { checkName } from './setup-options.ts'
import { SetupReport } from './setup-report.ts'

const HELP = renderHelp(certificateHelp)

/** Runs `vmhostd certificate renew`. */
export async function certificateCommand(args: readonly string[]): Promise<number> {
  const options = {
    config: { type: 'string', default: CONFIG_PATH },
    all: { type: 'boolean', default: false },
    san: { type: 'string', multiple: true },
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
    const names = (values.san ?? []).map(checkName)
    const renewed = await renewCertificates({ config, all: values.all, names, nowMs: Date.now(), report })
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
