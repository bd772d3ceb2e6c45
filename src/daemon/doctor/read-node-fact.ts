import { readFileSync } from 'node:fs'
import { withIssuers } from '../../api/listener/peer-chain.ts'
import { parsedCertificatesIn } from '../../lib/certificates-in.ts'
import { commonNameOf, lackingUsages } from '../../lib/leaf-certificate.ts'
import { fact } from './fact.ts'
import type { X509Certificate } from 'node:crypto'
import type { Config } from '../../config/config.ts'
import type { HostFacts } from '../../core/doctor/host-facts.ts'

/** Reads whether other hosts can know this one by the certificate of its node. That the files can be read is another fact. */
export async function readNodeFact({
  host,
  coordination: { enabled, certificateFile, caFile },
}: Pick<Config, 'host' | 'coordination'>): Promise<Pick<HostFacts, 'node'>> {
  if (!enabled) return {}
  const [sent, trusted] = await Promise.all([fact(() => read(certificateFile)), fact(() => read(caFile))])
  const leaf = sent.known ? sent.value[0] : undefined
  if (!sent.known || leaf === undefined || !trusted.known) return {}
  const faults = [
    ...(commonNameOf(leaf) === host.id ? [] : [`its common name is not host.id, ${host.id}`]),
    ...lackingUsages(leaf, ['server', 'client']).map((name) => `it does not have the usage ${name}`),
    ...(isOf([leaf, ...sent.value], trusted.value) ? [] : [`no authority in ${caFile} signed it`]),
  ]
  return {
    node:
      faults.length === 0
        ? { known: true, value: host.id }
        : { known: false, because: `${certificateFile}: ${faults.join('; ')}` },
  }
}

const read = (path: string): readonly X509Certificate[] => parsedCertificatesIn(readFileSync(path))

/** Returns whether one of these authorities is above the first of the certificates, or is that. */
function isOf([leaf, ...sent]: readonly X509Certificate[], authorities: readonly X509Certificate[]): boolean {
  if (leaf === undefined) return false
  const trusted = new Set(authorities.map(({ fingerprint256 }) => fingerprint256))
  return withIssuers([leaf], [...sent, ...authorities]).some(({ fingerprint256 }) =>
    trusted.has(fingerprint256),
  )
}
