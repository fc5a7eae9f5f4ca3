import { SECTIONS } from "../pages.mjs"

export default {
  title: "dess",
  description: "A recommender for Node.js that learns from every event as it comes.",
  srcDir: "work",
  outDir: "../../site",
  cleanUrls: true,
  themeConfig: {
    search: { provider: "local" },
    nav: [
      { text: "Quick start", link: "/guide/quick-start" },
      { text: "API", link: "/api/index.html", target: "_self" },
      { text: "Replay", link: "/replay/index.html", target: "_self" },
    ],
    sidebar: SECTIONS.map(({ text, pages }) => ({
      text,
      items: Object.entries(pages).map(([link, { title }]) => ({ text: title, link: `/${link}` })),
    })),
  },
  // Angle brackets in tables and texts are text.
  markdown: { html: false },
}
