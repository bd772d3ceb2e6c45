import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'

/** Arguments of `openssl genpkey` for the key that set-up makes itself. */
export const P256 = ['-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256'] as const

const openssl = (...args: readonly string[]): Buffer => execFileSync('openssl', args, { stdio: 'pipe' })

/** Makes an authority as an operator does, with openssl: `key` are arguments of `openssl genpkey`. */
export function makeOwnAuthority(t: TestContext, key: readonly string[], extensions: readonly string[] = []) {
  const directory = mkdtempSync(join(tmpdir(), 'authority-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const paths = { certificate: join(directory, 'own.crt'), key: join(directory, 'own.key') }
  openssl('genpkey', ...key, '-out', paths.key)
  const added = extensions.flatMap((extension) => ['-addext', extension])
  const about = ['-days', '3650', '-subj', '/O=Example/CN=own', ...added]
  openssl('req', '-x509', '-key', paths.key, ...about, '-out', paths.certificate)
  const read = () => ({
    certificate: readFileSync(paths.certificate, 'utf8'),
    key: readFileSync(paths.key, 'utf8'),
  })
  return { paths, read, openssl }
}
