/** Ways to download a zstd object by hand into a flushed file of the pool, with its digest and without. */
import { rmSync } from 'node:fs'
import { sh } from '../lab/inside/shell.ts'

const COPY = '/var/lib/vmhostd/pool/bench-image.raw'
const PIPE = '/run/bench-image.pipe'

/** A script gets the authorities' file, the URL and the target; it prints the digest that it makes. */
export type HandWay = { readonly name: string; readonly digests: boolean; readonly script: string }

export type HandSource = { readonly url: string; readonly caFile: string; readonly sha256: string }

const CURL = 'curl --silent --fail --cacert "$1" "$2"'
const ZSTD = 'zstd -q -d -f --sparse -o "$3"'
// coreutils' sha256sum of Debian 12 does not use the CPU's instructions for it, and takes five times as long.
const DIGEST = 'openssl dgst -sha256 -r'

/**
 * The digest is made of the file that was written, or beside it from a second decoding. One pipe with all the zeros of
 * the unpacked image (`zstd -dc | tee >(openssl) | dd conv=sparse`) takes longer than either: two more copies of 2 GiB.
 */
export const HAND_WAYS: readonly HandWay[] = [
  {
    name: '`curl | zstd -d`, then `openssl dgst -sha256`',
    digests: true,
    script: `${CURL} | ${ZSTD}; ${DIGEST} "$3"; sync "$3"`,
  },
  {
    name: '`curl | tee >(zstd -dc | openssl dgst -sha256) | zstd -d`',
    digests: true,
    script: `mkfifo "$4"; (zstd -q -dc <"$4" | ${DIGEST}) & ${CURL} | tee "$4" | ${ZSTD}; wait $!; sync "$3"`,
  },
  { name: '`curl | zstd -d` without a digest', digests: false, script: `${CURL} | ${ZSTD}; sync "$3"` },
]

/** Returns the milliseconds until the file is flushed: an image must be durable before a VM is made of it. */
export async function byHand({ name, digests, script }: HandWay, source: HandSource): Promise<number> {
  const { url, caFile, sha256 } = source
  rmSync(PIPE, { force: true })
  const startedAt = performance.now()
  const printed = await sh('bash', '-c', `set -eo pipefail; ${script}`, 'bash', caFile, url, COPY, PIPE)
  const ms = performance.now() - startedAt
  rmSync(COPY)
  if (digests && !printed.startsWith(sha256)) throw new Error(`${name} made another digest: ${printed}`)
  return ms
}
