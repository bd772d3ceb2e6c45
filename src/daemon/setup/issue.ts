import { existsSync } from 'node:fs'
import { limits } from '../../config/limits.ts'
import { UsageError } from '../usage-error.ts'
import { issueCertificate } from './certificates.ts'
import { certificatePaths } from './ensure-certificates.ts'
import { pairIn, writePair } from './pair-files.ts'
import { SetupError } from './setup-report.ts'
import { signingPair, whyNotSigned } from './signing-pair.ts'
import type { Config } from '../../config/config.ts'
import type { PairPaths } from './pair-files.ts'

export type IssueOptions = {
  readonly config: Config
  readonly commonName: string
  /** Where the two files are written. */
  readonly directory: string
  readonly nowMs: number
}

/** A common name that is also the name of a file. It has at most 64 characters (RFC 5280, ub-common-name). */
const NAME = /^[a-z0-9][a-z0-9._@-]{0,63}$/i

/**
 * Makes a key and a certificate for a client of the API, signed by the authority of the controller. Returns their
 * paths. Throws UsageError for a name that cannot be one, and SetupError if a file is there already or the authority
 * cannot sign.
 */
export async function issueForClient({
  config,
  commonName,
  directory,
  nowMs,
}: IssueOptions): Promise<PairPaths> {
  if (!NAME.test(commonName))
    throw new UsageError(
      `${JSON.stringify(commonName)} cannot name a client: use up to 64 letters, digits, dots, dashes, underscores and @`,
    )
  if (commonName === config.host.id)
    throw new UsageError(
      `${commonName} is the host.id of this host, and its node's certificate has that name`,
    )
  const paths = pairIn(directory, commonName)
  const there = [paths.certificate, paths.key].find((path) => existsSync(path))
  if (there !== undefined)
    throw new SetupError(`${there} is there already: remove it, or name another directory with --directory`)
  const { authority } = certificatePaths(config)
  const signer = signingPair(authority)
  if (signer === undefined) throw new SetupError(`${paths.certificate}: ${whyNotSigned(authority)} it`)
  writePair(
    paths,
    await issueCertificate(signer, { commonName, alternativeNames: [], usages: ['client'] }, nowMs),
  )
  return paths
}

/** Says what the client may do, and how to let it in if the configuration does not name it. */
export function nextForClient(
  { config, commonName }: Pick<IssueOptions, 'config' | 'commonName'>,
  { certificate, key }: PairPaths,
  configPath: string,
): string {
  const { controller } = config
  return `${configPath} ${rightsOf(commonName, config)}

Give ${certificate}, ${key} and ${controller.caFile} to the client alone. For vmhostctl, write a
profile beside them:
  url  = "https://HOST:${controller.port}"
  ca   = "ca.crt"
  cert = "${commonName}.crt"
  key  = "${commonName}.key"
It is valid for ${limits.certificateValidityDays} days. Nothing here renews it: issue another one before. Then take the key of the
authority off this host again.`
}

/** Returns what the configuration says of a client, as the rest of a sentence about its file. */
function rightsOf(commonName: string, { controller, metrics }: Config): string {
  if (commonName === controller.commonName) return `lets ${commonName} do everything.`
  const client = controller.clients.find((one) => one.commonName === commonName)
  if (client !== undefined) return `gives ${commonName} the role ${client.role}.`
  if (metrics.commonNames.includes(commonName)) return `lets ${commonName} read metrics.`
  return `does not name ${commonName} yet, so the daemon refuses it. To let it read, add it to the clients of
[controller], and restart the daemon:
  clients = [{ common_name = "${commonName}", role = "reader" }]`
}
