import { existsSync } from 'node:fs'
import { basename, dirname, join, parse } from 'node:path'
import { createAuthority, issueCertificate, namesLackingIn } from './certificates.ts'
import { certificateAt, describe, NOT_A_CERTIFICATE, reportKept } from './kept-certificate.ts'
import { onlyAddress } from './own-address.ts'
import { pairIn, writePair } from './pair-files.ts'
import { SetupError } from './setup-report.ts'
import { authoritiesAt, signingPair, whyNotSigned } from './signing-pair.ts'
import type { Config } from '../../config/config.ts'
import type { WantedLeaf } from './kept-certificate.ts'
import type { PairPaths } from './pair-files.ts'
import type { SetupReport } from './setup-report.ts'

export type CertificateOptions = {
  readonly config: Config
  /** Name of this machine; curl on it uses this name for the server. */
  readonly hostname: string
  readonly extraNames: readonly string[]
  readonly nowMs: number
  readonly report: SetupReport
}

/** Paths of all files of the initial public-key infrastructure. */
export type CertificatePaths = {
  readonly authority: PairPaths
  readonly server: PairPaths
  readonly controller: PairPaths
  /** For a reader of metrics. */
  readonly metrics: PairPaths
  readonly node: PairPaths
  /** The pair of the authority by default. */
  readonly nodeAuthority: PairPaths
}

const NOT_SIGNED =
  'the authority that was made now did not sign it, so it is not let in: put the earlier authority back, or run vmhostd certificate renew --all'

/** The configuration names the files of both listeners; the others are beside them. */
export function certificatePaths({ controller, coordination }: Config): CertificatePaths {
  const authority = { certificate: controller.caFile, key: join(dirname(controller.caFile), 'ca.key') }
  const { dir, name: nodes } = parse(coordination.caFile)
  const beside = dirname(controller.certificateFile)
  return {
    authority,
    server: { certificate: controller.certificateFile, key: controller.keyFile },
    controller: pairIn(beside, 'controller'),
    metrics: pairIn(beside, 'metrics'),
    node: { certificate: coordination.certificateFile, key: coordination.keyFile },
    nodeAuthority:
      coordination.caFile === controller.caFile
        ? authority
        : { certificate: coordination.caFile, key: join(dir, `${nodes}.key`) },
  }
}

/**
 * Makes what is missing of authority, server, controller and node certificate; never changes existing files. A node
 * without the coordination listener needs no certificate for it.
 */
export async function ensureCertificates(options: CertificateOptions): Promise<CertificatePaths> {
  const { config } = options
  const paths = certificatePaths(config)
  const authority = await ensureAuthority(paths.authority, 'authority', options)
  await ensureLeaf(paths.server, authority, options, {
    commonName: config.host.id,
    alternativeNames: namesOf(config.controller, options),
    usages: ['server'],
  })
  warnOfLackingNames(paths.server, config.controller, options)
  await ensureLeaf(paths.controller, authority, options, {
    commonName: config.controller.commonName,
    admitted: [config.controller.commonName],
    alternativeNames: [],
    usages: ['client'],
  })
  const [reader] = config.metrics.commonNames
  if (config.metrics.enabled && reader !== undefined)
    await ensureLeaf(paths.metrics, authority, options, {
      commonName: reader,
      admitted: config.metrics.commonNames,
      alternativeNames: [],
      usages: ['client'],
    })
  if (!config.coordination.enabled) return paths
  const nodeAuthority =
    paths.nodeAuthority === paths.authority
      ? authority
      : await ensureAuthority(paths.nodeAuthority, 'authority of nodes', options)
  await ensureLeaf(paths.node, nodeAuthority, options, {
    commonName: config.host.id,
    admitted: [config.host.id],
    alternativeNames: namesOf(config.coordination, options),
    usages: ['server', 'client'],
  })
  warnOfLackingNames(paths.node, config.coordination, options)
  return paths
}

/** The files of an authority. */
type Authority = PairPaths & {
  /** This run made it, so it has signed nothing that was there before. */
  readonly isNew?: true
}

/** Returns the authority; undefined if its key is not on this host (an operator's own). */
async function ensureAuthority(
  paths: PairPaths,
  name: string,
  options: CertificateOptions,
): Promise<Authority | undefined> {
  if (existsSync(paths.certificate) && authoritiesAt(paths.certificate).length === 0)
    options.report.warned(paths.certificate, NOT_A_CERTIFICATE)
  if (existsSync(paths.certificate) && !existsSync(paths.key)) {
    options.report.kept(paths.certificate, 'an authority whose key is elsewhere')
    return undefined
  }
  if (isThere(paths)) {
    options.report.kept(paths.certificate, `certificate ${name}`)
    return paths
  }
  const pair = await createAuthority(`vmhostd ${options.config.host.id} ${name}`, options.nowMs)
  writePair(paths, pair)
  options.report.made(paths.certificate, `certificate ${name}, with ${basename(paths.key)}`)
  return { ...paths, isNew: true }
}

async function ensureLeaf(
  paths: PairPaths,
  authority: Authority | undefined,
  options: CertificateOptions,
  request: WantedLeaf,
): Promise<void> {
  if (isThere(paths)) {
    reportKept(paths, request, options.report)
    // The certificate of a server may be of any authority that its clients trust.
    if (authority?.isNew === true && request.usages.includes('client'))
      options.report.warned(paths.certificate, NOT_SIGNED)
    return
  }
  const what = describe(request)
  if (authority === undefined) {
    options.report.missing(
      paths.certificate,
      `${what}: sign it with your own authority, which is not on this host`,
    )
    return
  }
  const signer = signingPair(authority)
  if (signer === undefined) {
    options.report.missing(paths.certificate, `${what}: ${whyNotSigned(authority)} it`)
    return
  }
  writePair(paths, await issueCertificate(signer, request, options.nowMs))
  options.report.made(paths.certificate, what)
}

type Listener = { readonly listenAddress: string }

/** Returns the names and addresses of the certificate of a listener. */
const namesOf = (listener: Listener, options: CertificateOptions): readonly string[] => [
  ...new Set([options.hostname, 'localhost', '127.0.0.1', '::1', ...wantedNames(listener, options)]),
]

/** Returns the names and addresses that the operator asks for, by options and in the configuration. */
function wantedNames(listener: Listener, { extraNames }: CertificateOptions): readonly string[] {
  const address = onlyAddress(listener)
  // A certificate cannot hold a zone, as in fe80::1%eth0.
  return address === undefined || address.includes('%') ? extraNames : [address, ...extraNames]
}

/** Warns of missing names: a kept certificate may be older than what the operator asks for now. */
function warnOfLackingNames(
  { certificate: path }: PairPaths,
  listener: Listener,
  options: CertificateOptions,
): void {
  const { report } = options
  const wanted = wantedNames(listener, options)
  if (wanted.length === 0 || !existsSync(path)) return
  const certificate = certificateAt(path)
  const lacking = certificate === undefined ? [] : namesLackingIn(certificate, wanted)
  if (lacking.length === 0) return
  const remedy = `vmhostd certificate renew ${lacking.map((name) => `--san ${name}`).join(' ')}`
  report.warned(path, `it does not have ${lacking.join(', ')}: ${remedy}`)
}

/** Throws on half a pair, which is neither kept nor overwritten: the operator must look at it. */
function isThere({ certificate, key }: PairPaths): boolean {
  const [found, lacking] = existsSync(certificate) ? [certificate, key] : [key, certificate]
  if (!existsSync(found)) return false
  if (!existsSync(lacking)) {
    throw new SetupError(
      `${found} is there, but ${lacking} is not: put it back, or remove the first, and run this again`,
    )
  }
  return true
}
