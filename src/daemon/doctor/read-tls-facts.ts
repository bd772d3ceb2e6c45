import { X509Certificate } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { issuersWithoutList } from '../../api/listener/revocation-order.ts'
import { readTlsFiles } from '../../api/listener/tls-files.ts'
import {
  certificatesIn,
  commonNameOf,
  lackingUsages,
  nameInOneLine,
  parsedCertificatesIn,
} from '../../lib/certificates.ts'
import { tlsFilesOf } from '../tls-files-of.ts'
import { fact } from './fact.ts'
import { withIssuers } from '../../api/listener/peer-chain.ts'
import type { Config } from '../../config/config.ts'
import type { CertificateFact, HostFacts, RevocationFact } from '../../core/doctor/host-facts.ts'

type Listeners = Pick<Config, 'controller' | 'coordination'>

/** Reads the files of each listener as the listener does at its start. */
export async function readTlsFacts({
  controller,
  coordination,
}: Listeners): Promise<Pick<HostFacts, 'tlsFiles' | 'certificates' | 'revocations'>> {
  const listeners = [
    { listener: 'controller', files: tlsFilesOf(controller) },
    ...(coordination.enabled ? [{ listener: 'nodes', files: tlsFilesOf(coordination) }] : []),
  ]
  const tlsFiles = listeners.map(async ({ listener, files }) => ({
    listener,
    files: await fact(() => {
      readTlsFiles(files)
      checkRoots(files.ca)
      return 'fit' as const
    }),
  }))
  const revocations = listeners.flatMap(({ listener, files: { ca, revocations: path } }) =>
    path === undefined ? [] : [revocationsIn({ listener, path, ca })],
  )
  const paths = new Map([
    [controller.certificateFile, 'server'],
    [controller.caFile, 'authority'],
    ...(coordination.enabled ? ([[coordination.certificateFile, 'node']] as const) : []),
    ...(coordination.enabled && coordination.caFile !== controller.caFile
      ? ([[coordination.caFile, 'node authority']] as const)
      : []),
  ])
  return {
    tlsFiles: await Promise.all(tlsFiles),
    revocations: await Promise.all(revocations),
    certificates: [...paths].flatMap(([path, name]) => certificatesOf(path, name)),
  }
}

/** Throws if all chains of certificates lead out of a file of authorities: TLS then trusts nothing that they signed. */
function checkRoots(path: string): void {
  const authorities = certificatesAt(path)
  const [first] = authorities
  if (first === undefined || authorities.some(isRoot)) return
  throw new Error(
    `${path} trusts no certificate: ${nameInOneLine(first.issuer)}, which signed ${nameInOneLine(first.subject)}, is not in it`,
  )
}

const isRoot = (one: X509Certificate): boolean => one.subject === one.issuer && one.verify(one.publicKey)

async function revocationsIn({
  listener,
  path,
  ca,
}: {
  listener: string
  path: string
  ca: string
}): Promise<RevocationFact> {
  let withoutList: readonly string[] = []
  const lists = await fact(async () => {
    const { parseRevocationLists } = await import('../../api/listener/revocation-list.ts')
    const authorities = certificatesIn(readFileSync(ca))
    const { lists: read } = await parseRevocationLists(readFileSync(path, 'latin1'), authorities)
    withoutList = issuersWithoutList(
      read,
      authorities.map((pem) => new X509Certificate(pem)),
    ).map(nameInOneLine)
    return read.map(({ issuer, serials, nextUpdateMs }) => ({ issuer, revoked: serials.size, nextUpdateMs }))
  })
  return { listener, path, lists, withoutList }
}

/** Returns all certificates of a file; none if they cannot be read, which the listener's finding says. */
function certificatesOf(path: string, name: string): readonly CertificateFact[] {
  if (!existsSync(path)) return []
  try {
    return certificatesAt(path).map(({ ca: isAuthority, validFromDate, validToDate }, index) => ({
      name: index === 0 ? name : `${name} ${index + 1}`,
      path,
      isAuthority,
      notBeforeMs: validFromDate.getTime(),
      notAfterMs: validToDate.getTime(),
    }))
  } catch {
    return []
  }
}

/**
 * Reads whether other hosts can know this one by the certificate of its node.
 * That the files can be read is another fact.
 */
export async function readNodeFact({
  host,
  coordination: { enabled, certificateFile, caFile },
}: Pick<Config, 'host' | 'coordination'>): Promise<Pick<HostFacts, 'node'>> {
  if (!enabled) return {}
  const [sent, trusted] = await Promise.all([
    fact(() => certificatesAt(certificateFile)),
    fact(() => certificatesAt(caFile)),
  ])
  const leaf = sent.known ? sent.value[0] : undefined
  if (!sent.known || leaf === undefined || !trusted.known || trusted.value.length === 0) return {}
  const isSigned = isOf([leaf, ...sent.value], trusted.value)
  const faults = [
    ...(commonNameOf(leaf) === host.id ? [] : [`its common name is not host.id, ${host.id}`]),
    ...lackingUsages(leaf, ['server', 'client']).map((name) => `it does not have the usage ${name}`),
    ...(isSigned ? [] : [`no authority in ${caFile} signed it`]),
  ]
  return {
    node:
      faults.length === 0
        ? { known: true, value: host.id }
        : {
            known: false,
            because: `${certificateFile}: ${faults.join('; ')}`,
            ...(!isSigned && faults.length === 1 ? { fault: 'authority' } : {}),
          },
  }
}

const certificatesAt = (path: string): readonly X509Certificate[] => parsedCertificatesIn(readFileSync(path))

/** Returns whether one of these authorities is above the first of the certificates, or is that. */
function isOf([leaf, ...sent]: readonly X509Certificate[], authorities: readonly X509Certificate[]): boolean {
  if (leaf === undefined) return false
  const trusted = new Set(authorities.map(({ fingerprint256 }) => fingerprint256))
  return withIssuers([leaf], [...sent, ...authorities]).some(({ fingerprint256 }) =>
    trusted.has(fingerprint256),
  )
}
