import { renameSync, writeFileSync } from 'node:fs'
import { eventually } from './eventually.ts'
import type { CertificatePair } from '../../../src/daemon/setup/certificates.ts'
import type { ControllerHost, Pki } from './controller-host.ts'

/**
 * Renews the certificate of a server in two steps: first the key, which does not fit the old certificate. Calls back
 * between them, and returns the new pair when it is in use.
 */
export async function renewServer(
  { files, logLines }: Pick<ControllerHost, 'files' | 'logLines'>,
  pki: Pki,
  between: () => Promise<void>,
): Promise<CertificatePair> {
  const names = { commonName: 'host-1', alternativeNames: ['127.0.0.1'] }
  const renewed = await pki.issue({ ...names, usages: ['server'] })
  const logged = (words: string) => eventually(() => logLines.some((line) => line.includes(words)))
  writeFileSync(`${files.key}.new`, renewed.key)
  renameSync(`${files.key}.new`, files.key)
  await logged('the previous ones stay in use')
  await between()
  writeFileSync(files.certificate, renewed.certificate)
  await logged('certificates replaced')
  return renewed
}
