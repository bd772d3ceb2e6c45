import { X509Certificate } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { commonNameOf, lackingUsages, usagesOf } from '../../lib/certificates.ts'
import { privateKeyIn } from './signing-pair.ts'
import type { LeafRequest } from './certificates.ts'
import type { PairPaths } from './pair-files.ts'
import type { SetupReport } from './setup-report.ts'

/** A certificate that is made, or kept if it is there. */
export type WantedLeaf = LeafRequest & {
  /** Common names of which a kept one must have one; undefined if peers do not look at its common name. */
  readonly admitted?: readonly string[]
}

/** Says it of a file that is kept, and what to do. */
export const NOT_A_CERTIFICATE = 'it is not a certificate: put the right file back'

const REMEDY =
  'move it and its key away, and run this again with the key of its authority in place; or have that authority sign another'

const KEY_REMEDY =
  'put the right one back; or move both away and run vmhostd setup, or run vmhostd certificate renew --all, with the key of its authority in place'

/**
 * Reports a kept certificate as it is. Warns if it is older than a change of the configuration that it does not fit.
 */
export function reportKept(paths: PairPaths, wanted: WantedLeaf, report: SetupReport): void {
  const { certificate: path } = paths
  const certificate = certificateAt(path)
  if (certificate === undefined) {
    report.warned(path, NOT_A_CERTIFICATE)
    return
  }
  const commonName = commonNameOf(certificate)
  report.kept(path, describe({ commonName, usages: usagesOf(certificate) }))
  const keyFault = keyFaultOf(paths, certificate)
  if (keyFault !== undefined) report.warned(path, keyFault)
  const faults = faultsOf(certificate, wanted)
  if (faults.length > 0) report.warned(path, `${faults.join('; ')}: ${REMEDY}`)
}

/** Describes a certificate for the report. */
export function describe({
  commonName,
  usages,
}: {
  readonly commonName: string | undefined
  readonly usages: LeafRequest['usages']
}): string {
  const whose = commonName === undefined ? 'without a common name' : `of ${commonName}`
  return `certificate ${whose}${usages.length === 0 ? '' : `, for a ${usages.join(' and ')}`}`
}

/** Returns the certificate of a file; undefined if there is none in it. */
export function certificateAt(path: string): X509Certificate | undefined {
  const content = readFileSync(path)
  try {
    return new X509Certificate(content)
  } catch {
    return undefined
  }
}

/** Says what is wrong with the key of a certificate, and what to do; undefined if it fits, or is not there. */
export function keyFaultOf({ key }: PairPaths, certificate: X509Certificate): string | undefined {
  if (!existsSync(key)) return undefined
  const content = readFileSync(key, 'utf8')
  // A key with a passphrase cannot be compared. Those of clients may have one.
  if (content.includes('ENCRYPTED')) return undefined
  const privateKey = privateKeyIn(content)
  if (privateKey !== undefined && certificate.checkPrivateKey(privateKey)) return undefined
  const because =
    privateKey === undefined ? 'is not a private key (PEM) without a passphrase' : 'is not its key'
  return `${key} ${because}: ${KEY_REMEDY}`
}

function faultsOf(certificate: X509Certificate, { admitted, usages }: WantedLeaf): readonly string[] {
  const commonName = commonNameOf(certificate)
  const isAdmitted = admitted === undefined || (commonName !== undefined && admitted.includes(commonName))
  return [
    ...(isAdmitted
      ? []
      : [
          `its common name is ${commonName ?? 'missing'}, and the configuration asks for ${admitted.join(' or ')}`,
        ]),
    ...lackingUsages(certificate, usages).map((name) => `it does not have the usage ${name}`),
  ]
}
