import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { runChecked } from '../process.ts'
import { epochOf } from '../source-date.ts'

/** Writes texts into a tar archive, below one folder. Equal texts and times give equal bytes. */
export async function writeArchive(
  target: string,
  {
    root,
    files,
    date,
  }: { readonly root: string; readonly files: ReadonlyMap<string, string>; readonly date: Date },
): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), 'archive-'))
  try {
    for (const [name, text] of files) {
      const file = path.join(folder, root, name)
      mkdirSync(path.dirname(file), { recursive: true })
      writeFileSync(file, text)
      chmodSync(file, 0o644)
    }
    const tar = path.join(folder, 'tar')
    const equal = ['--sort=name', `--mtime=@${epochOf(date)}`, '--owner=0', '--group=0', '--numeric-owner']
    await runChecked([
      ...['tar', '--create', '--format=ustar', '--mode=a+rX,u+w,go-w', ...equal],
      ...['--directory', folder, '--file', tar, root],
    ])
    writeFileSync(target, gzipSync(readFileSync(tar), { level: 9 }))
  } finally {
    rmSync(folder, { recursive: true })
  }
}
