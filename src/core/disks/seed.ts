/** The files of a NoCloud seed disk (cloud-init, "NoCloud" datasource; volume label `cidata`). */
export type Seed = {
  /** Digest of all the files; shows whether a disk on the host is this seed. */
  readonly digest: string
  readonly files: readonly { readonly name: string; readonly content: string }[]
}
