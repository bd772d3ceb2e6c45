import { existsSync } from 'node:fs'
import { limits } from '../../config/limits.ts'
import { namesLackingIn, reissueCertificate, whyNotReissued } from './certificates.ts'
import { certificatePaths } from './ensure-certificates.ts'
import { certificateAt, keyFaultOf, NOT_A_CERTIFICATE } from './kept-certificate.ts'
import { replacePair } from './pair-files.ts'
import { authoritiesAt, signingPair, whyNotSigned } from './signing-pair.ts'
import { nameInOneLine } from '../../lib/certificates.ts'
import { DAY_MS } from '../../lib/time-units.ts'
import type { X509Certificate } from 'node:crypto'
import type { Config } from '../../config/config.ts'
import type { CertificatePair } from './certificates.ts'
import type { Flush } from '../../store/database/schema-copies.ts'
import type { PairPaths } from './pair-files.ts'
import type { SetupReport } from './setup-report.ts'

export type RenewOptions = {
  readonly config: Config
  /** Renews certificates that are valid and end later too. */
  readonly all: boolean
  /** Names that the certificates of the server and the node must have; one that lacks some is renewed. */
  readonly names?: readonly string[]
  readonly nowMs: number
  readonly report: SetupReport
  /** fsync(2), unless a test follows what is synced. */
  readonly sync?: Flush
}

/**
 * Replaces the certificates of this host that end soon, are not valid yet, or lack a name, by ones with their names and
 * uses, and a new key. Certificates of an authority whose key is not on this host, and those that would lose something,
 * are reported with what to do. Returns the paths of the new ones.
 */
export async function renewCertificates(options: RenewOptions): Promise<readonly string[]> {
  const { authority, nodeAuthority, server, controller, metrics, node } = certificatePaths(options.config)
  const { names = [] } = options
  const renewed: string[] = []
  const leaves: readonly Leaf[] = [
    { paths: server, signer: authority, names },
    { paths: controller, signer: authority, names: [] },
    { paths: metrics, signer: authority, names: [] },
    { paths: node, signer: nodeAuthority, names },
  ]
  for (const leaf of leaves) if (await renew(leaf, options)) renewed.push(leaf.paths.certificate)
  for (const { certificate } of new Set([authority, nodeAuthority])) reportAuthority(certificate, options)
  return renewed
}

/** A certificate that is renewed: who signs it, and which names it must have. */
type Leaf = { readonly paths: PairPaths; readonly signer: PairPaths; readonly names: readonly string[] }

async function renew({ paths, signer, names }: Leaf, options: RenewOptions): Promise<boolean> {
  const { report, nowMs, all } = options
  if (!existsSync(paths.certificate)) return false
  const old = certificateAt(paths.certificate)
  if (old === undefined) {
    report.missing(paths.certificate, NOT_A_CERTIFICATE)
    return false
  }
  const until = validityOf(old, nowMs)
  const addedNames = namesLackingIn(old, names)
  if (!all && !endsSoon(old, nowMs) && !isEarly(old, nowMs) && addedNames.length === 0) {
    const keyFault = keyFaultOf(paths, old)
    if (keyFault === undefined) report.kept(paths.certificate, until)
    else report.missing(paths.certificate, keyFault)
    return false
  }
  const authority = signerOf(signer, old)
  const lost = whyNotReissued(old)
  if (authority === undefined || lost !== undefined) {
    const because = authority === undefined ? whyNotSigned(signer) : `${lost}: have that authority sign`
    report.missing(
      paths.certificate,
      `${until}; ${because} a new one with ${addedNames.length === 0 ? 'the same names' : `its names, ${addedNames.join(', ')}`} and uses, and replace ${paths.certificate} and ${paths.key}`,
    )
    return false
  }
  replacePair(paths, await reissueCertificate(authority, old, { nowMs, addedNames }), options.sync)
  const named = addedNames.length === 0 ? '' : `, and ${addedNames.join(', ')} among its names`
  report.changed(paths.certificate, `renewed, with ${paths.key}${named}; the one before ${until}`)
  return true
}

const endsSoon = ({ validToDate }: X509Certificate, nowMs: number): boolean =>
  validToDate.getTime() - nowMs <= limits.certificateWarningDays * DAY_MS

/** Returns whether a certificate is not valid yet: the clock was ahead when it was made, or is behind now. */
const isEarly = ({ validFromDate }: X509Certificate, nowMs: number): boolean =>
  validFromDate.getTime() > nowMs

/** Says when a certificate ends; of one that is not valid yet, when it begins. */
function validityOf(one: X509Certificate, nowMs: number): string {
  if (!isEarly(one, nowMs)) return `ends on ${dayOf(one.validToDate)}`
  const { validFromDate: from } = one
  return `begins only on ${dayOf(from)} at ${from.toISOString().slice(11, 16)} UTC`
}

/**
 * Returns the pair that signs here; undefined if there is not one, or if the old certificate is of another authority.
 */
function signerOf(authority: PairPaths, old: X509Certificate): CertificatePair | undefined {
  const { certificate, key } = authority
  if (!existsSync(certificate) || !existsSync(key)) return undefined
  const trusted = authoritiesAt(certificate)
  const isIssued = trusted.some((one) => old.checkIssued(one) && old.verify(one.publicKey))
  return isIssued ? signingPair(authority) : undefined
}

function reportAuthority(path: string, { report, nowMs }: RenewOptions): void {
  if (!existsSync(path)) return
  const trusted = authoritiesAt(path)
  if (trusted.length === 0) report.missing(path, NOT_A_CERTIFICATE)
  for (const one of trusted) {
    const namesakes = trusted.filter(({ subject }) => subject === one.subject)
    const serial = namesakes.length === 1 ? '' : `, serial number ${one.serialNumber}`
    const until = `authority ${nameInOneLine(one.subject)}${serial}, ${validityOf(one, nowMs)}`
    if (isEarly(one, nowMs))
      report.missing(
        path,
        `${until}: until then no peer accepts what it signed. Set the clock of this host if it is wrong; if it is right, see "Replace an authority without an outage" in docs/certificates.md`,
      )
    else if (one.validToDate.getTime() - nowMs < limits.certificateValidityDays * DAY_MS)
      report.warned(path, `${until}: certificates end with it at the latest; see docs/certificates.md`)
    else report.kept(path, until)
  }
}

const dayOf = (time: Date): string => time.toISOString().slice(0, 10)
