// Draws every figure of the page from the JSON beside it. Form of a figure:
// {kind, x, series: [{label, form, values}], names, unit, y}.
"use strict";
(() => {
  const colours = ["#3b7dd8", "#c62828", "#2e7d32", "#8e5bc0", "#c77700", "#00838f", "#6d4c41", "#5c6bc0", "#9e9d24", "#ad1457", "#546e7a", "#ef6c00"];
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const ink = dark ? "#ccc" : "#333", grid = {stroke: dark ? "#333" : "#e4e4e4", width: 1};
  const round = v => v == null ? "–" : +v.toPrecision(4);
  const paths = {
    line: s => s, // uPlot's own
    step: s => ({...s, paths: uPlot.paths.stepped({align: 1})}),
    bars: s => ({...s, paths: uPlot.paths.bars({size: [0.95]}), fill: s.stroke + "99", points: {show: false}}),
    points: s => ({...s, paths: () => null, points: {show: true, size: 6, fill: s.stroke}}),
    joined: s => ({...s, spanGaps: true, points: {show: true, size: 8, fill: s.stroke}}),
  };
  for (const box of document.querySelectorAll("[data-figure]")) {
    const f = JSON.parse(box.querySelector("script").textContent);
    const name = (u, v, si, i) => i == null ? "–" : (f.names ? f.names[i] + ": " : "") + round(v);
    const axis = label => ({label, stroke: ink, grid, ticks: grid});
    const series = f.series.map((s, n) => paths[s.form]({label: s.label, stroke: colours[n % colours.length], width: 1.5, value: name}));
    const chart = new uPlot({
      width: box.clientWidth || 900, height: 280,
      scales: {x: {time: false}, y: {range: (u, low, high) => [0, high > 0 ? high * 1.05 : 1]}},
      axes: [axis(f.unit), axis(f.y)],
      series: [{label: f.unit, value: (u, v) => round(v)}, ...series],
    }, [f.x, ...f.series.map(s => s.values)], box);
    new ResizeObserver(() => chart.setSize({width: box.clientWidth, height: 280})).observe(box);
  }
})();
